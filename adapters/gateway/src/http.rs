//! HTTP client of a gateway: `POST {url}/refunds`, signed, with an idempotency key per attempt at a refund.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_egress::{SetupError, authorities, tls_config, with_causes};
use handover_outbox::ports::Clock;
use handover_webhooks::Message;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};
use marketplace_domain::{Currency, InvoiceId, Money, OrderId, PaymentId, Reference, RefundId};
use rustls::RootCertStore;
use serde::Serialize;

use crate::endpoint::{Endpoint, EndpointError};
use crate::response::{AttemptResult, classify, excerpt};
use crate::signature::Signer;

/// Pauses before the second and third attempt of a call.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];
/// Timeout for reading the reason from the body of an error response.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of the response head.
const HEAD_BYTES: usize = 32 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum GatewaySetupError {
    #[error("the gateway's secret must be whsec_ followed by 24 to 64 bytes in base64")]
    Secret,
    /// The URL cannot be combined with a path.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Tls(#[from] SetupError),
}

pub struct HttpGateway {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    refunds: Uri,
    signer: Signer,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefundBody<'a> {
    refund_id: RefundId,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<Reference>,
    payment_id: PaymentId,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_reference: Option<Reference>,
    transaction_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<OrderId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invoice_id: Option<InvoiceId>,
    amount: Money,
    currency: Currency,
}

impl HttpGateway {
    /// Creates a client that signs its requests with `secret`. `timeout` limits each attempt.
    pub fn new(
        endpoint: &Endpoint,
        secret: &str,
        timeout: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<HttpGateway, GatewaySetupError> {
        let signer = Signer::new(secret).ok_or(GatewaySetupError::Secret)?;
        // A machine without certificate authorities can call a gateway on this machine.
        let authorities = if endpoint.is_encrypted() { authorities(&[])? } else { RootCertStore::empty() };
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.enforce_http(false);
        // The connector divides this time among the addresses of the host, so that one address that does not respond
        // does not use up the time of the attempt.
        connector.set_connect_timeout(Some(timeout / 3));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(authorities)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).http1_max_buf_size(HEAD_BYTES).build(connector);
        Ok(HttpGateway { client, refunds: endpoint.at("/refunds")?, signer, timeout, clock })
    }

    /// The signer of the requests, to replace its secret.
    pub fn signer(&self) -> Signer {
        self.signer.clone()
    }

    async fn attempt(&self, request: &RefundRequest, body: &Bytes) -> AttemptResult {
        let Some(request) = self.signed(request, body) else {
            return AttemptResult::Final(GatewayError::Refused("the request cannot be signed".to_owned()));
        };
        let response = tokio::select! {
            biased;
            response = self.client.request(request) => response,
            () = self.clock.sleep(self.timeout) => {
                let message = format!("no answer within {:?}", self.timeout);
                return AttemptResult::Final(GatewayError::Unavailable(message));
            }
        };
        match response {
            Ok(response) if response.status().is_success() => AttemptResult::Accepted,
            Ok(response) => {
                let status = response.status();
                let mut reason = String::new();
                tokio::select! {
                    biased;
                    () = excerpt(response, &mut reason) => {}
                    () = self.clock.sleep(REASON_TIMEOUT) => {}
                }
                classify(status, &reason)
            }
            Err(error) => AttemptResult::RetryNow(GatewayError::Unavailable(with_causes(&error))),
        }
    }

    /// Builds the request, signed with the current time.
    fn signed(&self, request: &RefundRequest, body: &Bytes) -> Option<Request<Full<Bytes>>> {
        let key = &request.key;
        let mut built = Request::post(self.refunds.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("handover/", env!("CARGO_PKG_VERSION")))
            .header("Idempotency-Key", key)
            .body(Full::new(body.clone()))
            .ok()?;
        let trace = &request.trace;
        for (name, text) in
            [("x-trace-id", Some(&trace.trace_id)), ("traceparent", trace.traceparent.as_ref())]
        {
            // A trace context that is not a valid header value is omitted; the refund is more important.
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                built.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        let message = Message { id: key, timestamp: self.clock.now().timestamp(), body };
        self.signer.sign(built.headers_mut(), &message).then_some(built)
    }
}

/// The references of the refund and its payment. A request whose key is not the reference may be the repetition of one that
/// an earlier version sent: it has the body of that version, because gateways refuse a repeated key with another body.
fn references(request: &RefundRequest) -> Option<(Reference, Option<Reference>)> {
    let reference = request.reference.filter(|reference| reference.to_string() == request.key)?;
    Some((reference, request.payment_reference))
}

#[async_trait]
impl Gateway for HttpGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        let (reference, payment_reference) = references(request).unzip();
        let body = RefundBody {
            refund_id: request.refund,
            reference,
            payment_id: request.payment,
            payment_reference: payment_reference.flatten(),
            transaction_id: request.transaction_id.as_deref(),
            order_id: request.of.order(),
            invoice_id: request.of.invoice(),
            amount: request.amount,
            currency: request.currency,
        };
        let body = serde_json::to_vec(&body).map_err(|error| GatewayError::Refused(error.to_string()))?;
        let body = Bytes::from(body);
        let mut pauses = PAUSES.into_iter();
        loop {
            match self.attempt(request, &body).await {
                AttemptResult::Accepted => return Ok(()),
                AttemptResult::Final(error) => return Err(error),
                AttemptResult::RetryNow(error) => match pauses.next() {
                    Some(pause) => {
                        tracing::debug!(%error, refundId = %request.refund, "gateway: refund request failed; retrying");
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
