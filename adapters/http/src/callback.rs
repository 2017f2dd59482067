//! Signature verification of the payment gateway's callbacks: Standard Webhooks (`webhook-id`, `webhook-timestamp`,
//! `webhook-signature`).
//!
//! **Invariant:** the signature is verified over the received bytes before they are parsed.

use axum::http::HeaderMap;
use standardwebhooks::Webhook;

use crate::envelope::Code;
use crate::messages;
use crate::refusal::Refusal;

/// The secret is not `whsec_` followed by 24 to 64 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the gateway's secret must be whsec_ followed by 24 to 64 bytes in base64")]
pub struct InvalidSecret;

/// Verifies callbacks with one secret. A timestamp may differ from the system clock by at most five minutes; the crate
/// `standardwebhooks` accepts no other clock.
pub struct CallbackVerifier {
    webhook: Webhook,
}

impl CallbackVerifier {
    /// Creates a verifier for the secret `whsec_...`.
    pub fn new(secret: &str) -> Result<CallbackVerifier, InvalidSecret> {
        let base64 = secret.strip_prefix("whsec_").ok_or(InvalidSecret)?;
        let bytes = base64.trim_end_matches('=').len() * 3 / 4;
        if !(24..=64).contains(&bytes) {
            return Err(InvalidSecret);
        }
        Ok(CallbackVerifier { webhook: Webhook::new(secret).map_err(|_| InvalidSecret)? })
    }

    /// Verifies the signature and its timestamp.
    pub(crate) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refusal> {
        self.webhook.verify(body, headers).map_err(|error| {
            tracing::warn!(%error, "callback: signature rejected");
            Refusal::new(Code::NotAuthenticated, messages::BAD_SIGNATURE)
        })
    }
}
