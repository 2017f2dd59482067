//! An application with webhooks on a store in memory, and its operators.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::request::Parts;
use handover_events::{TenantId, Trace};
use handover_http::envelope::Code;
use handover_http::refusal::Refusal;
use handover_http::{OperatorState, operator_router};
use handover_memory::{MemoryBroker, MemoryStore, SeededRandom, VirtualClock};
use handover_outbox::dispatch::dispatch_once;
use handover_outbox::operations::Operator;
use handover_outbox::ports::{
    BodyForm, EndpointHeaders, EndpointId, EndpointSecret, NewSecret, NewWebhookDelivery, Sealed,
    SecretError, SendError, WebhookEndpoint, WebhookRequest, WebhookResponse, WebhookTransport, outbox_of,
};
use handover_outbox::topology::Topology;
use handover_outbox::webhooks::{
    Offer, OfferedType, WebhookDispatcher, WebhookRetention, WebhookSettings, Webhooks,
};
use handover_outbox::{EventSpec, Outbox, Tasks, Transactor, WakeupNotifier, with_tx};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::start;

/// Part of every secret, and of the value of every header.
pub(crate) const CANARY: &str = "canary";

/// An endpoint that does not exist.
pub(crate) const NOWHERE: &str = "0192f0c1-0000-7000-8000-0000000000ff";

/// Answers requests with scripted statuses, then with 200.
#[derive(Default)]
pub(crate) struct Receiver {
    pub(crate) statuses: Mutex<VecDeque<u16>>,
    secrets: Mutex<u32>,
}

#[async_trait]
impl WebhookTransport for Receiver {
    fn check_url(&self, url: &str) -> Result<(), String> {
        if url.starts_with("https://") { Ok(()) } else { Err("must begin with https://".to_owned()) }
    }

    fn check_header(&self, name: &str, _: &str) -> Result<(), String> {
        if name == "host" { Err("the header host is reserved".to_owned()) } else { Ok(()) }
    }

    fn new_secret(&self, _: EndpointId) -> Result<NewSecret, SecretError> {
        let mut number = self.secrets.lock().unwrap();
        *number += 1;
        let stored = EndpointSecret {
            sealed: Sealed(format!("sealed-{number}")),
            public_key: format!("whpk_{number}"),
            valid_until: None,
        };
        Ok(NewSecret { shown: format!("whsec_{CANARY}{number}"), stored })
    }

    fn seal_headers(
        &self,
        _: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError> {
        let names = headers.keys().map(|name| name.to_ascii_lowercase()).collect();
        Ok(EndpointHeaders { names, sealed: Sealed("sealed".to_owned()) })
    }

    fn reseal(&self, _: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError> {
        Ok(None)
    }

    async fn send(&self, _: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        let status = self.statuses.lock().unwrap().pop_front().unwrap_or(200);
        Ok(WebhookResponse { status, retry_after: None, body: b"signed by Ada".to_vec() })
    }
}

/// The application. Its operators are `ada` (tenant 1), `pia` (tenant 1, may see personal data), `bob` (tenant 2) and
/// `root` (all tenants); `guest` is no operator.
pub(crate) struct Library {
    pub(crate) tx: Transactor,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) router: Router,
}

fn staff(head: &Parts, trace: Trace) -> Result<Operator, Refusal> {
    let name = head.headers.get("x-staff").and_then(|value| value.to_str().ok());
    let name = name.ok_or_else(|| Refusal::of(Code::NOT_AUTHENTICATED))?;
    if name == "guest" {
        return Err(Refusal::of(Code::NOT_ALLOWED));
    }
    let tenant = TenantId::try_from(if name == "bob" { 2 } else { 1 }).unwrap();
    Ok(Operator {
        name: name.to_owned(),
        tenant,
        sees_all_tenants: name == "root",
        sees_personal_data: name == "pia",
        trace,
    })
}

fn lent() -> OfferedType {
    OfferedType {
        event_type: "BOOK_LENT".to_owned(),
        name: "book.lent".to_owned(),
        aggregate: "Book".to_owned(),
        summary: "A book was lent.".to_owned(),
        thin: vec!["copies".to_owned()],
        schema: json!({
            "type": "object",
            "required": ["copies", "reader"],
            "properties": { "copies": { "type": "integer" }, "reader": { "type": "string" } },
        }),
        example: handover_events::Json::parse(r#"{"copies":1,"reader":"Ada"}"#).unwrap(),
    }
}

/// The library without its router.
pub(crate) fn outbox() -> Outbox {
    let clock = Arc::new(VirtualClock::new(start()));
    let broker = MemoryBroker::new(clock.clone());
    let store = Arc::new(MemoryStore::<()>::new(clock.clone(), WakeupNotifier::default()));
    let tx = Transactor::new(outbox_of(&store), clock, Arc::new(SeededRandom::new(7)), Tasks::default());
    Outbox::new(tx, Arc::new(broker), Topology::new("x", "dead", "dead"))
        .with_event(EventSpec::new("BOOK_LENT", "book.lent").visible(&["copies"]))
}

impl Library {
    pub(crate) fn new() -> Library {
        let outbox = outbox();
        let lost = OfferedType { event_type: "BOOK_LOST".to_owned(), name: "book.lost".to_owned(), ..lent() };
        let receiver = Arc::new(Receiver::default());
        let webhooks = Webhooks {
            outbox: outbox.clone(),
            offer: Arc::new(Offer::default().with(lent()).with(lost)),
            transport: receiver.clone(),
            keep: WebhookRetention::DEFAULT,
        };
        let tx = outbox.tx.clone();
        let router = operator_router(OperatorState::new(outbox, staff).with_webhooks(webhooks));
        Library { tx, receiver, router }
    }

    pub(crate) fn call<'a>(&'a self, method: &'a str, path: &'a str) -> Call<'a> {
        Call { library: self, method, path, staff: Some("ada"), body: None, language: "en" }
    }

    /// Creates an endpoint of tenant 1 for the event type `book.lent`; returns its id.
    pub(crate) async fn endpoint(&self) -> String {
        let created = self.call("POST", "/webhooks").body(&endpoint()).expect(201).await;
        created["endpointId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn dispatch(&self) -> usize {
        let dispatcher =
            WebhookDispatcher::new(self.tx.clone(), self.receiver.clone(), WebhookSettings::default());
        dispatch_once(&self.tx, &dispatcher, NonZeroU32::new(10).unwrap()).await.unwrap()
    }

    /// Writes a delivery that is `DEAD`.
    pub(crate) async fn dead_delivery(&self, endpoint: &str, event: &str) {
        let delivery = NewWebhookDelivery {
            endpoint: EndpointId(endpoint.parse().unwrap()),
            tenant: TenantId::DEFAULT,
            event_id: event.parse().unwrap(),
            redelivery: 0,
            event_type: "book.lost".to_owned(),
            order_key: "Book/1".to_owned(),
            body: "{}".to_owned(),
            body_form: BodyForm::Thin,
            dead_because: Some("given up".to_owned()),
            at: self.tx.now(),
        };
        let inserted = with_tx(&self.tx, [delivery], |unit, deliveries, _| {
            Box::pin(async move { unit.outbox().insert_webhook_deliveries(deliveries).await })
        });
        assert_eq!(inserted.await.unwrap(), 1);
    }

    /// The names of the actions in the audit log, the oldest first.
    pub(crate) async fn audited_changes(&self) -> Vec<String> {
        let audit = self.call("GET", "/audit?changes=true&limit=100").expect(200).await;
        let entries = audit["items"].as_array().unwrap().iter().rev();
        entries.map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
    }
}

/// The body of a request that creates an endpoint.
pub(crate) fn endpoint() -> Value {
    json!({ "url": "https://erp.example/hooks", "eventTypes": ["book.lent"] })
}

/// A request.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    library: &'a Library,
    method: &'a str,
    path: &'a str,
    staff: Option<&'a str>,
    body: Option<String>,
    language: &'a str,
}

impl<'a> Call<'a> {
    pub(crate) fn by(self, staff: &'a str) -> Call<'a> {
        Call { staff: Some(staff), ..self }
    }

    pub(crate) fn by_nobody(self) -> Call<'a> {
        Call { staff: None, ..self }
    }

    pub(crate) fn in_chinese(self) -> Call<'a> {
        Call { language: "zh", ..self }
    }

    pub(crate) fn body(self, body: &Value) -> Call<'a> {
        Call { body: Some(body.to_string()), ..self }
    }

    /// Sends the request; returns status and body.
    pub(crate) async fn send(self) -> (u16, Value) {
        let mut request = Request::builder().method(self.method).uri(self.path);
        if let Some(staff) = self.staff {
            request = request.header("x-staff", staff);
        }
        request = request.header("accept-language", self.language);
        let request = match self.body {
            Some(body) => request.header("content-type", "application/json").body(Body::from(body)),
            None => request.body(Body::empty()),
        };
        let response = self.library.router.clone().oneshot(request.unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Sends the request; returns its data.
    #[track_caller]
    pub(crate) fn expect(self, expected: u16) -> impl Future<Output = Value> {
        let name = format!("{} {}", self.method, self.path);
        async move {
            let (status, mut body) = self.send().await;
            assert_eq!(status, expected, "{name}: {body}");
            body["data"].take()
        }
    }

    /// Sends an invalid request; returns the names of the invalid fields.
    pub(crate) async fn wrong_fields(self) -> Vec<String> {
        let (status, body) = self.send().await;
        assert_eq!((status, &body["code"]), (400, &json!("A0400")), "{body}");
        let errors = body["data"]["errors"].as_array().unwrap().iter();
        errors.map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }
}
