//! A transport of webhooks that sends nothing.

use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_outbox::ports::{
    EndpointHeaders, EndpointId, EndpointSecret, NewSecret, Sealed, SecretError, SendError, WebhookEndpoint,
    WebhookRequest, WebhookResponse, WebhookTransport,
};

/// Every secret.
pub(crate) const WEBHOOK_SECRET: &str = "whsec_canary";

pub(crate) struct NoTransport;

#[async_trait]
impl WebhookTransport for NoTransport {
    fn check_url(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn check_header(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn new_secret(&self, _: EndpointId) -> Result<NewSecret, SecretError> {
        let stored = EndpointSecret {
            sealed: Sealed("sealed".to_owned()),
            public_key: "whpk_x".to_owned(),
            valid_until: None,
        };
        Ok(NewSecret { shown: WEBHOOK_SECRET.to_owned(), stored })
    }

    fn seal_headers(
        &self,
        _: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError> {
        Ok(EndpointHeaders { names: headers.keys().cloned().collect(), sealed: Sealed("sealed".to_owned()) })
    }

    fn reseal(&self, _: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError> {
        Ok(None)
    }

    async fn send(&self, _: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        Err(SendError::NoResponse("this transport sends nothing".to_owned()))
    }
}
