//! Signature of requests: Standard Webhooks, with the same secret that verifies the gateway's callbacks.

use std::sync::{Arc, PoisonError, RwLock};

use handover_webhooks::{Message, SigningKey};
use hyper::header::HeaderMap;

/// Signs requests. Clones share the secret.
#[derive(Clone, Debug)]
pub struct Signer(Arc<RwLock<SigningKey>>);

impl Signer {
    /// Creates a signer with a secret `whsec_...`; `None` if the secret is invalid.
    pub(crate) fn new(secret: &str) -> Option<Signer> {
        Some(Signer(Arc::new(RwLock::new(SigningKey::Secret(secret.parse().ok()?)))))
    }

    /// Signs with this secret from now on, in all clones. Returns `false`, and changes nothing, if the secret is invalid.
    pub fn replace(&self, secret: &str) -> bool {
        let Ok(secret) = secret.parse() else { return false };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = SigningKey::Secret(secret);
        true
    }

    /// Adds the signature headers; returns `false` if signing fails.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, message: &Message<'_>) -> bool {
        let key = self.0.read().unwrap_or_else(PoisonError::into_inner);
        message.sign(headers, std::slice::from_ref(&*key)).is_ok()
    }
}
