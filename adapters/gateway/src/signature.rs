//! Signature of requests: Standard Webhooks, with the same secret that verifies the gateway's callbacks.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook};

/// Signs requests. Clones share the secret. Its `Debug` output does not contain the secret.
#[derive(Clone)]
pub struct Signer(Arc<RwLock<Webhook>>);

impl Signer {
    /// Creates a signer with a secret `whsec_...`; `None` if the secret is invalid.
    pub(crate) fn new(secret: &str) -> Option<Signer> {
        Some(Signer(Arc::new(RwLock::new(webhook(secret)?))))
    }

    /// Signs with this secret from now on, in all clones. Returns `false`, and changes nothing, if the secret is invalid.
    pub fn replace(&self, secret: &str) -> bool {
        let Some(webhook) = webhook(secret) else { return false };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = webhook;
        true
    }

    /// Adds the signature headers for a body; returns `false` if signing fails.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, id: &str, timestamp: i64, body: &[u8]) -> bool {
        let signature = self.0.read().unwrap_or_else(PoisonError::into_inner).sign(id, timestamp, body);
        let Ok(signature) = signature else { return false };
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

fn webhook(secret: &str) -> Option<Webhook> {
    let base64 = secret.strip_prefix("whsec_")?;
    // Standard Webhooks, "Signature scheme": a secret has 24 to 64 bytes.
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    if !(24..=64).contains(&bytes) {
        return None;
    }
    Webhook::new(secret).ok()
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(...)")
    }
}
