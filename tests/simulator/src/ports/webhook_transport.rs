//! The webhook transport of one process, with faulty receivers: unreachable, failing, busy, gone, slow, silent, or with
//! responses that are lost.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::{
    EndpointHeaders, EndpointId, EndpointSecret, NewSecret, Sealed, SecretError, SendError, WebhookEndpoint,
    WebhookRequest, WebhookResponse, WebhookTransport,
};

use super::Process;
use crate::actors::webhooks::tenant_of_url;
use crate::fault_kinds::{CrashPoint, Fault};

/// Shortest time of a request. It takes time also after the fault phase, so that a run ends although a dispatcher sends
/// the same delivery forever.
const MIN_REQUEST: Duration = Duration::from_millis(5);

/// The receivers of webhooks as one process sees them, with the faults of the run.
pub(crate) struct FaultyReceivers {
    pub(crate) process: Process,
}

#[async_trait]
impl WebhookTransport for FaultyReceivers {
    fn check_url(&self, url: &str) -> Result<(), String> {
        tenant_of_url(url).map(|_| ()).ok_or_else(|| "is not the URL of a receiver".to_owned())
    }

    fn check_header(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn new_secret(&self, endpoint: EndpointId) -> Result<NewSecret, SecretError> {
        let sealed = Sealed(format!("secret of {endpoint}"));
        let stored = EndpointSecret { sealed, public_key: "whpk_simulated".to_owned(), valid_until: None };
        Ok(NewSecret { shown: "whsec_simulated".to_owned(), stored })
    }

    fn seal_headers(
        &self,
        _: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError> {
        let names = headers.keys().cloned().collect();
        Ok(EndpointHeaders { names, sealed: Sealed("headers".to_owned()) })
    }

    fn reseal(&self, _: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError> {
        Ok(None)
    }

    async fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        let faults = &self.process.faults;
        faults.needs_connection("a webhook receiver");
        self.process.maybe_crash(CrashPoint::AfterClaimBeforeRequest).await;
        let (endpoint, event) = (request.endpoint.id, &request.message_id);
        self.process.note(|| format!("sends {event} to endpoint {endpoint}"));
        let violations =
            faults.observed(|observed| observed.webhooks.record_request(&self.process.name, request));
        violations.into_iter().for_each(|violation| faults.violation(violation));
        if tenant_of_url(&request.endpoint.url) != Some(request.endpoint.tenant) {
            let tenant = request.endpoint.tenant;
            faults.violation(format!("{event} of tenant {tenant} was sent to a receiver of another tenant"));
        }
        match tokio::time::timeout(request.deadline, self.response(request)).await {
            Ok(response) => response,
            Err(_) => Err(SendError::NoResponse("no response within the time limit".to_owned())),
        }
    }
}

impl FaultyReceivers {
    async fn response(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        let faults = &self.process.faults;
        faults.sleep(MIN_REQUEST).await;
        faults.delay().await;
        if faults.occurs(Fault::ReceiverUnreachable) {
            return Err(SendError::NoResponse("connection refused".to_owned()));
        }
        if faults.occurs(Fault::ReceiverHangs) {
            return pending().await;
        }
        let mut retry_after = None;
        let status = if faults.occurs(Fault::ReceiverFails) {
            500
        } else if faults.occurs(Fault::ReceiverBusy) {
            503
        } else if faults.occurs(Fault::ReceiverAsksToWait) {
            retry_after = Some("1".to_owned());
            503
        } else if faults.occurs(Fault::ReceiverGone) {
            410
        } else {
            200
        };
        let (endpoint, event) = (request.endpoint.id, &request.message_id);
        self.process.note(|| format!("endpoint {endpoint} answers {status} to {event}"));
        faults.observed(|observed| observed.webhooks.record_response(endpoint, event, status));
        self.process.maybe_crash(CrashPoint::AfterRequestBeforeRecord).await;
        if faults.occurs(Fault::ReceiverResponseLost) {
            return Err(SendError::NoResponse("connection reset".to_owned()));
        }
        if faults.occurs(Fault::ReceiverLate) {
            faults.sleep(faults.random.millis(200..4_000)).await;
        }
        faults.delay().await;
        Ok(WebhookResponse { status, retry_after, body: b"simulated".to_vec() })
    }
}
