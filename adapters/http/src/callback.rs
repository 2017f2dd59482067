//! The gateway's signature: Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`).
//!
//! **Invariant:** the signature is checked over the bytes as they came, before anything reads them.

use axum::http::HeaderMap;
use standardwebhooks::Webhook;

use crate::envelope::Code;
use crate::messages;
use crate::refusal::Refusal;

/// The secret is not `whsec_` and 24 to 64 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway's secret must be whsec_ followed by 24 to 64 bytes in base64")]
pub struct BadSecret;

/// Verifies callbacks with one secret. A signature may be five minutes old or ahead, by the clock of this machine: the
/// crate takes no other.
pub struct CallbackVerifier {
    webhook: Webhook,
}

impl CallbackVerifier {
    /// For this secret, `whsec_...`.
    pub fn new(secret: &str) -> Result<CallbackVerifier, BadSecret> {
        let base64 = secret.strip_prefix("whsec_").ok_or(BadSecret)?;
        let bytes = base64.trim_end_matches('=').len() * 3 / 4;
        if !(24..=64).contains(&bytes) {
            return Err(BadSecret);
        }
        Ok(CallbackVerifier { webhook: Webhook::new(secret).map_err(|_| BadSecret)? })
    }

    /// Whether the gateway signed these bytes just now.
    pub(crate) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        self.webhook.verify(body, headers).map_err(|error| {
            tracing::warn!(%error, "a callback was refused");
            Refusal::new(Code::NotSignedIn, messages::BAD_SIGNATURE)
        })
    }
}
