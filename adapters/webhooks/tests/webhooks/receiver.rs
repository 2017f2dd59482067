//! A receiver of webhooks, and endpoints that send to it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_egress::{EgressClient, Networks, SystemResolver, UrlRules};
use handover_events::TenantId;
use handover_outbox::ports::{
    BodyForm, EndpointHealth, EndpointId, EndpointStatus, NewSecret, WebhookEndpoint, WebhookRequest,
    WebhookTransport,
};
use handover_webhooks::{HttpTransport, SecretKey, SecretKeys};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use uuid::Uuid;

pub(crate) const AUTHORITY: &[u8] = include_bytes!("../../../egress/tests/egress/authority.pem");
pub(crate) const KEY: &str = "a key of webhooks for these tests only";
pub(crate) const BODY: &str =
    r#"{"type":"order.paid","timestamp":"2026-11-27T00:00:00Z","data":{"note":"naïve €"}}"#;
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The answer to every request.
#[derive(Clone)]
pub(crate) enum Answer {
    Response { status: u16, headers: &'static [(&'static str, &'static str)], body: String },
    Nothing,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Answer {
        Answer::Response { status, headers: &[], body: String::new() }
    }
}

#[derive(Clone)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A server that keeps the requests and counts its connections.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub(crate) async fn start(answer: Answer) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            received: Arc::default(),
        };
        let connections = Arc::clone(&receiver.connections);
        let received = Arc::clone(&receiver.received);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                let received = Arc::clone(&received);
                let answer = answer.clone();
                let service =
                    service_fn(move |request| respond(request, Arc::clone(&received), answer.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

async fn respond(
    request: Request<Incoming>,
    received: Arc<Mutex<Vec<Received>>>,
    answer: Answer,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    received.lock().unwrap().push(Received { headers: head.headers, body });
    match answer {
        Answer::Nothing => std::future::pending().await,
        Answer::Response { status, headers, body } => {
            let response =
                headers.iter().fold(Response::builder().status(status), |response, (name, value)| {
                    response.header(*name, *value)
                });
            Ok(response.body(Full::from(body)).unwrap())
        }
    }
}

/// A transport that may reach 127.0.0.0/8, with the current key and the previous one.
pub(crate) fn transport_with(current: &str, previous: Option<&str>) -> HttpTransport {
    let networks = Networks::public_and(vec!["127.0.0.0/8".parse().unwrap()]);
    let client = EgressClient::new(networks.clone(), Arc::new(SystemResolver::default()), AUTHORITY).unwrap();
    let key = |text: &str| SecretKey::new(text).unwrap();
    let keys = SecretKeys::new(key(current), previous.map(key));
    HttpTransport::new(client, UrlRules { networks, own_hosts: Vec::new() }, keys)
}

pub(crate) fn transport() -> HttpTransport {
    transport_with(KEY, None)
}

/// An endpoint with one secret, and the secret.
pub(crate) fn endpoint(transport: &HttpTransport, url: &str) -> (WebhookEndpoint, String) {
    let id = EndpointId(Uuid::from_u128(7));
    let NewSecret { shown, stored } = transport.new_secret(id).unwrap();
    let endpoint = WebhookEndpoint {
        id,
        tenant: TenantId::DEFAULT,
        slot: Some(1),
        url: url.to_owned(),
        description: None,
        event_types: vec!["*".to_owned()],
        is_ordered: false,
        body_form: BodyForm::Thin,
        signs_asymmetrically: false,
        per_second: None,
        max_in_flight: 2,
        headers: None,
        secrets: vec![stored],
        status: EndpointStatus::Enabled,
        disabled_reason: None,
        version: 1,
        create_time: DateTime::UNIX_EPOCH,
        update_time: DateTime::UNIX_EPOCH,
        health: EndpointHealth::default(),
    };
    (endpoint, shown)
}

/// The static headers of an endpoint.
pub(crate) fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A request that is made now.
pub(crate) fn request(endpoint: &WebhookEndpoint) -> WebhookRequest<'_> {
    WebhookRequest {
        endpoint,
        message_id: "0192f0c1-0000-7000-8000-000000000002".to_owned(),
        at: Utc::now(),
        body: BODY,
        is_redelivery: false,
        deadline: LONG,
    }
}
