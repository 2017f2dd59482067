//! Verifies the signatures of the payment gateway, according to Standard Webhooks (`webhook-id`, `webhook-timestamp`,
//! `webhook-signature`).

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderMap;
use chrono::DateTime;
use handover_http::envelope::Code;
use handover_http::refusal::Refusal;
use standardwebhooks::Webhook;

use crate::messages;

const TIMESTAMP: &str = "webhook-timestamp";
/// The headers of a signed request.
const SIGNATURE_HEADERS: [&str; 3] = ["webhook-id", TIMESTAMP, "webhook-signature"];

/// The secret is not `whsec_` followed by 24 to 64 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway's secret must be whsec_ followed by 24 to 64 bytes in base64")]
pub struct InvalidSecret;

/// Verifies callbacks with the current secret or the previous one. Clones share the secrets. A timestamp may differ from the system clock by at most five minutes; the crate
/// `standardwebhooks` accepts no other clock.
#[derive(Clone)]
pub struct CallbackVerifier {
    webhooks: Arc<RwLock<Vec<Webhook>>>,
}

impl CallbackVerifier {
    /// Creates a verifier for the secret `whsec_...`.
    pub fn new(secret: &str) -> Result<CallbackVerifier, InvalidSecret> {
        Ok(CallbackVerifier { webhooks: Arc::new(RwLock::new(webhooks(secret, None)?)) })
    }

    /// Replaces the secrets, in all clones. Callbacks that are signed with `previous` are accepted too.
    pub fn replace(&self, secret: &str, previous: Option<&str>) -> Result<(), InvalidSecret> {
        let webhooks = webhooks(secret, previous)?;
        *self.webhooks.write().unwrap_or_else(PoisonError::into_inner) = webhooks;
        Ok(())
    }

    /// Verifies the signature and its timestamp.
    pub(crate) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        // The library reads the first value only.
        let repeated = SIGNATURE_HEADERS.into_iter().find(|name| headers.get_all(*name).iter().count() > 1);
        if let Some(name) = repeated {
            tracing::warn!(
                code = "gateway.callback.repeated-header",
                header = name,
                "callback: repeated header; rejected"
            );
            return Err(Refusal::new(Code::NOT_AUTHENTICATED, messages::repeated_header(name)));
        }
        // The library calculates with the timestamp without regard to overflow.
        let timestamp = headers.get(TIMESTAMP).and_then(|value| value.to_str().ok()?.parse().ok());
        if timestamp.is_some_and(|seconds: i64| DateTime::from_timestamp(seconds, 0).is_none()) {
            return Err(rejected(Some("the timestamp is not a time".to_owned())));
        }
        let webhooks = self.webhooks.read().unwrap_or_else(PoisonError::into_inner);
        let mut refusal = None;
        for webhook in webhooks.iter() {
            match webhook.verify(body, headers) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        Err(rejected(refusal.map(|error| error.to_string())))
    }
}

fn rejected(error: Option<String>) -> Refusal {
    tracing::warn!(code = "gateway.callback.signature-rejected", error, "callback: signature rejected");
    Refusal::new(Code::NOT_AUTHENTICATED, messages::BAD_SIGNATURE)
}

fn webhooks(secret: &str, previous: Option<&str>) -> Result<Vec<Webhook>, InvalidSecret> {
    [secret].into_iter().chain(previous).map(webhook).collect()
}

fn webhook(secret: &str) -> Result<Webhook, InvalidSecret> {
    let base64 = secret.strip_prefix("whsec_").ok_or(InvalidSecret)?;
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    if !(24..=64).contains(&bytes) {
        return Err(InvalidSecret);
    }
    Webhook::new(secret).map_err(|_| InvalidSecret)
}
