//! Public keys of external token issuers: a JSON Web Key Set (RFC 7517).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Allowed size of an RSA modulus in bytes: 2048 bits (RFC 7518 §3.3) to 8192 bits (the maximum of ring).
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Size of an Ed25519 public key in bytes (RFC 8032 §5.1.5).
const ED25519_BYTES: usize = 32;

/// Public keys by key id, each for one algorithm. `Debug` does not show the keys.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: BTreeMap<String, Key>,
}

/// A key and the one algorithm it may be used with.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(super) algorithm: Algorithm,
    pub(super) verifying: DecodingKey,
}

/// Reason why a key set is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// The text is not a JSON Web Key Set.
    #[error("not a JSON Web Key Set: expected an object with an array \"keys\" of objects")]
    NotAKeySet,
    /// A key contains its private part. The key set is rejected: anyone who can read it could sign tokens.
    #[error("the key {0:?} contains its private part; configure the public key only")]
    PrivateKey(String),
    /// A key has no id, so no token could select it.
    #[error("a key has no id (\"kid\")")]
    MissingId,
    /// Two keys have the same id.
    #[error("two keys have the id {0:?}")]
    DuplicateId(String),
    /// A key is malformed or has an unsupported size.
    #[error("the key {0:?} is malformed, or is an RSA key of less than 2048 or more than 8192 bits")]
    Unusable(String),
    /// The set contains no key that can verify tokens.
    #[error("the set contains no key for RS256 (RSA) or EdDSA (Ed25519)")]
    Empty,
}

#[derive(Deserialize)]
struct JsonWebKeySet {
    keys: Vec<JsonWebKey>,
}

/// The members of a key that this crate reads (RFC 7517 §4, RFC 7518 §6.3.1, RFC 8037 §2).
#[derive(Deserialize)]
struct JsonWebKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    d: Option<Value>,
}

impl KeySet {
    /// Parses a key set. Keys for other algorithms than RS256 and EdDSA are ignored (RFC 7517 §5).
    pub fn parse(text: &str) -> Result<KeySet, KeySetError> {
        let set: JsonWebKeySet = serde_json::from_str(text).map_err(|_| KeySetError::NotAKeySet)?;
        let mut keys = BTreeMap::new();
        for key in set.keys {
            let Some(algorithm) = key.algorithm() else { continue };
            let id = key.kid.clone().filter(|id| !id.is_empty()).ok_or(KeySetError::MissingId)?;
            if key.d.is_some() {
                return Err(KeySetError::PrivateKey(id));
            }
            let verifying = key.verifying(algorithm).ok_or_else(|| KeySetError::Unusable(id.clone()))?;
            if keys.insert(id.clone(), Key { algorithm, verifying }).is_some() {
                return Err(KeySetError::DuplicateId(id));
            }
        }
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(KeySet { keys }) }
    }

    /// The ids of the keys.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    pub(crate) fn key(&self, id: &str) -> Option<&Key> {
        self.keys.get(id)
    }
}

impl JsonWebKey {
    /// The algorithm of the key; `None` if it is not RS256 or EdDSA, or if the key is not for verifying signatures.
    fn algorithm(&self) -> Option<Algorithm> {
        let (algorithm, name) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", None) => (Algorithm::RS256, "RS256"),
            ("OKP", Some("Ed25519")) => (Algorithm::EdDSA, "EdDSA"),
            _ => return None,
        };
        let is_for_signatures = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        let can_verify = self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let is_for_algorithm = self.alg.as_deref().is_none_or(|alg| alg == name);
        (is_for_signatures && can_verify && is_for_algorithm).then_some(algorithm)
    }

    fn verifying(&self, algorithm: Algorithm) -> Option<DecodingKey> {
        if algorithm == Algorithm::EdDSA {
            let key = decode_base64url(self.x.as_deref()?)?;
            return (key.len() == ED25519_BYTES).then(|| DecodingKey::from_ed_der(&key));
        }
        let n = decode_base64url(self.n.as_deref()?)?;
        let e = decode_base64url(self.e.as_deref()?)?;
        let significant = |bytes: &[u8]| bytes.iter().skip_while(|byte| **byte == 0).copied().collect();
        let n: Vec<u8> = significant(&n);
        let e: Vec<u8> = significant(&e);
        let usable = RSA_BYTES.contains(&n.len()) && !e.is_empty();
        usable.then(|| DecodingKey::from_rsa_raw_components(&n, &e))
    }
}

fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
