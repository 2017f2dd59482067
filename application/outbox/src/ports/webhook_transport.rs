//! Sends webhooks and keeps their secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::endpoint_id::EndpointId;
use super::webhook_endpoints::{EndpointHeaders, EndpointSecret, WebhookEndpoint};

/// Reason why secrets cannot be encrypted or decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The stored text was not encrypted with the current or the previous key.
    #[error(
        "the secrets of endpoint {0} were encrypted with another key: set webhook.key to that key, or set it as \
         webhook.previous-key and run `webhook rotate-key`"
    )]
    OtherKey(EndpointId),
    /// The random source of the machine failed.
    #[error("the random source of this machine failed")]
    NoRandomness,
}

/// Reason why a request got no complete response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The text names the cause: refused address, DNS, connection, TLS, time limit, HTTP. It MUST NOT contain text of a
    /// response, because it is not masked.
    #[error("{0}")]
    NoResponse(String),
    /// This process cannot sign requests to the endpoint, so that none was sent.
    #[error("the request was not sent: {0}")]
    NotSigned(#[from] SecretError),
}

impl SendError {
    /// [`SendError::NoResponse`] with this cause.
    pub fn no_response(cause: impl fmt::Display) -> SendError {
        SendError::NoResponse(cause.to_string())
    }
}

/// A new secret.
#[derive(Clone)]
pub struct NewSecret {
    /// The secret in the form of the Standard Webhooks specification: `whsec_...`. It is shown once.
    pub shown: String,
    /// The secret as it is stored.
    pub stored: EndpointSecret,
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSecret").field("stored", &self.stored).finish_non_exhaustive()
    }
}

/// A request to an endpoint.
#[derive(Debug, Clone)]
pub struct WebhookRequest<'r> {
    /// Endpoint.
    pub endpoint: &'r WebhookEndpoint,
    /// Id of the event. It is the header `webhook-id`, unless it contains a dot; then the header is its UUIDv5.
    pub message_id: String,
    /// Header `webhook-timestamp`.
    pub at: DateTime<Utc>,
    /// Body.
    pub body: &'r str,
    /// Whether an operator asked to send the event again.
    pub is_redelivery: bool,
    /// Time limit of the request with its response.
    pub deadline: Duration,
}

/// A response of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    /// HTTP status.
    pub status: u16,
    /// Value of the header `retry-after`.
    pub retry_after: Option<String>,
    /// Beginning of the body.
    pub body: Vec<u8>,
}

/// Sends signed requests and encrypts the secrets of endpoints. The application never sees a secret, except a new one.
#[async_trait]
pub trait WebhookTransport: Send + Sync {
    /// Checks a URL. The error says why no request may be sent to it.
    fn check_url(&self, url: &str) -> Result<(), String>;

    /// Checks the name and value of a static header. The error says why it may not be set.
    fn check_header(&self, name: &str, value: &str) -> Result<(), String>;

    /// Creates a secret with a key pair.
    fn new_secret(&self, endpoint: EndpointId) -> Result<NewSecret, SecretError>;

    /// Encrypts static headers.
    fn seal_headers(
        &self,
        endpoint: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError>;

    /// Encrypts the secrets and headers of an endpoint with the current key. `None` if they are.
    fn reseal(&self, endpoint: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError>;

    /// Signs a request with every secret that is valid at its time, sends it and reads the response. Every status is a
    /// response; redirects are not followed.
    async fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError>;
}
