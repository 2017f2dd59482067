//! A gateway behind HTTP: `POST {url}/refunds`, signed, under the refund's own key.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::Clock;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};
use marketplace_domain::{Currency, Money, OrderId, PaymentId, RefundId};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;

use crate::answer::{Tried, excerpt, judged};
use crate::endpoint::{BadEndpoint, Endpoint};
use crate::signature::Signer;

/// The pauses before a second and a third try of one call.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];
/// How long the reason of a refusal is waited for.
const REASON_WITHIN: Duration = Duration::from_secs(1);
/// The greatest head of an answer.
const HEAD_BYTES: usize = 32 * 1024;

/// Why there can be no such gateway.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The secret is none.
    #[error("the gateway's secret must be whsec_ followed by 24 to 64 bytes in base64")]
    Secret,
    /// Nothing is asked there.
    #[error(transparent)]
    Endpoint(#[from] BadEndpoint),
    /// This machine trusts nobody, so no certificate can be checked.
    #[error("this machine has no certificate authorities to check the gateway's certificate with{0}")]
    NoAuthorities(String),
    /// TLS refuses its own settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// A gateway behind HTTP.
pub struct HttpGateway {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    refunds: Uri,
    signer: Signer,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

/// What is asked for, in the gateway's words.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Asked<'a> {
    refund_id: RefundId,
    payment_id: PaymentId,
    transaction_id: Option<&'a str>,
    order_id: OrderId,
    amount: Money,
    currency: Currency,
}

impl HttpGateway {
    /// The gateway there, asked with this secret; one try takes at most `timeout`.
    pub fn new(
        endpoint: &Endpoint,
        secret: &str,
        timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<HttpGateway, Unusable> {
        let signer = Signer::new(secret).ok_or(Unusable::Secret)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.enforce_http(false);
        // So that a host with a dead address leaves time for another try.
        connector.set_connect_timeout(Some(timeout / 3));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(endpoint.is_encrypted())?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).http1_max_buf_size(HEAD_BYTES).build(connector);
        Ok(HttpGateway { client, refunds: endpoint.at("/refunds")?, signer, timeout, clock })
    }

    async fn once(&self, request: &RefundRequest, body: &Bytes) -> Tried {
        let Some(request) = self.signed(request, body) else {
            return Tried::Over(GatewayError::Refused("the request cannot be signed".to_owned()));
        };
        let answer = tokio::select! {
            biased;
            answer = self.client.request(request) => answer,
            () = self.clock.sleep(self.timeout) => {
                let told = format!("no answer within {:?}", self.timeout);
                return Tried::Over(GatewayError::Unavailable(told));
            }
        };
        match answer {
            Ok(answer) if answer.status().is_success() => Tried::Taken,
            Ok(answer) => {
                let (status, mut said) = (answer.status(), String::new());
                tokio::select! {
                    biased;
                    () = excerpt(answer, &mut said) => {}
                    () = self.clock.sleep(REASON_WITHIN) => {}
                }
                judged(status, &said)
            }
            Err(error) => Tried::AtOnce(GatewayError::Unavailable(with_causes(&error))),
        }
    }

    /// The request, signed now.
    fn signed(&self, request: &RefundRequest, body: &Bytes) -> Option<Request<Full<Bytes>>> {
        let key = request.idempotency_key();
        let mut built = Request::post(self.refunds.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("handover/", env!("CARGO_PKG_VERSION")))
            .header("Idempotency-Key", &key)
            .body(Full::new(body.clone()))
            .ok()?;
        let trace = &request.trace;
        for (name, text) in
            [("x-trace-id", Some(&trace.trace_id)), ("traceparent", trace.traceparent.as_ref())]
        {
            // A trace that is no header value is worth less than the money.
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                built.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        let now = self.clock.now().timestamp();
        self.signer.sign(built.headers_mut(), &key, now, body).then_some(built)
    }
}

#[async_trait]
impl Gateway for HttpGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        let asked = Asked {
            refund_id: request.refund,
            payment_id: request.payment,
            transaction_id: request.transaction_id.as_deref(),
            order_id: request.order,
            amount: request.amount,
            currency: request.currency,
        };
        let body = serde_json::to_vec(&asked).map_err(|error| GatewayError::Refused(error.to_string()))?;
        let body = Bytes::from(body);
        let mut pauses = PAUSES.into_iter();
        loop {
            match self.once(request, &body).await {
                Tried::Taken => return Ok(()),
                Tried::Over(error) => return Err(error),
                Tried::AtOnce(error) => match pauses.next() {
                    Some(pause) => {
                        tracing::debug!(%error, refundId = %request.refund, "the gateway is asked once more");
                        self.clock.sleep(pause).await;
                    }
                    None => return Err(error),
                },
            }
        }
    }
}

impl fmt::Debug for HttpGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpGateway")
            .field("refunds", &self.refunds)
            .field("signer", &self.signer)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// TLS with ring; the authorities are those of this machine, read only where there is something to check.
fn tls(encrypted: bool) -> Result<ClientConfig, Unusable> {
    let mut authorities = RootCertStore::empty();
    if encrypted {
        let found = rustls_native_certs::load_native_certs();
        authorities.add_parsable_certificates(found.certs);
        if authorities.is_empty() {
            let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(Unusable::NoAuthorities(why));
        }
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities)
        .with_no_client_auth())
}

/// An error and what is behind it, in one line.
fn with_causes(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(behind) = cause {
        told.push_str(": ");
        told.push_str(&behind.to_string());
        cause = behind.source();
    }
    told
}
