//! Signature of requests: Standard Webhooks, with the same secret that verifies the gateway's callbacks.

use std::fmt;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

/// Signs requests. Its `Debug` output does not contain the secret.
pub(crate) struct Signer(Webhook);

impl Signer {
    /// Creates a signer with a secret `whsec_...`; `None` if the secret is invalid.
    pub(crate) fn new(secret: &str) -> Option<Signer> {
        let base64 = secret.strip_prefix("whsec_")?;
        // Standard Webhooks, "Signature scheme": a secret has 24 to 64 bytes.
        let bytes = base64.trim_end_matches('=').len() * 3 / 4;
        if !(24..=64).contains(&bytes) {
            return None;
        }
        Webhook::new(secret).ok().map(Signer)
    }

    /// Adds the signature headers for a body; returns `false` if signing fails.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, id: &str, timestamp: i64, body: &[u8]) -> bool {
        let Ok(signature) = self.0.sign(id, timestamp, body) else { return false };
        [
            (HEADER_WEBHOOK_ID, id),
            (HEADER_WEBHOOK_TIMESTAMP, timestamp.to_string().as_str()),
            (HEADER_WEBHOOK_SIGNATURE, signature.as_str()),
        ]
        .into_iter()
        .all(|(name, value)| {
            let value = HeaderValue::from_str(value);
            value.is_ok_and(|value| headers.insert(HeaderName::from_static(name), value).is_none())
        })
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(...)")
    }
}
