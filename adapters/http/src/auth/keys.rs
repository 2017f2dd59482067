//! Public keys that tokens of others are verified with: a JSON Web Key Set (RFC 7517).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The bytes of the smallest and the greatest RSA modulus: 2048 and 8192 bits (RFC 7518 §3.3; what ring takes).
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// The bytes of an Ed25519 key (RFC 8032 §5.1.5).
const ED25519_BYTES: usize = 32;

/// A set of keys by their ids, each for one algorithm. Shown without the keys.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: BTreeMap<String, Key>,
}

/// A key, and what it is for.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) algorithm: Algorithm,
    pub(super) verifying: DecodingKey,
}

/// Why a set of keys is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// It is something else.
    #[error("it is no JSON Web Key Set: an object with a list \"keys\" of objects")]
    NoSet,
    /// Who has the private key can sign: it has no place where tokens are only verified.
    #[error("the key {0:?} has its private part in it")]
    Private(String),
    /// A key without an id would never be chosen.
    #[error("a key has no id (\"kid\")")]
    WithoutId,
    /// Two keys under one id.
    #[error("two keys have the id {0:?}")]
    Twice(String),
    /// It cannot be read, or can be broken.
    #[error("the key {0:?} is malformed, or an RSA key of less than 2048 or more than 8192 bits")]
    Unusable(String),
    /// There is nothing to verify tokens with.
    #[error("it holds no key for RS256 (RSA) or EdDSA (Ed25519)")]
    Empty,
}

#[derive(Deserialize)]
struct Written {
    keys: Vec<WrittenKey>,
}

/// What is read of a key (RFC 7517 §4, RFC 7518 §6.3.1, RFC 8037 §2).
#[derive(Deserialize)]
struct WrittenKey {
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
    /// Reads a set. Keys that are for something else than RS256 and EdDSA are left out (RFC 7517 §5).
    pub fn parse(text: &str) -> Result<KeySet, BadKeys> {
        let written: Written = serde_json::from_str(text).map_err(|_| BadKeys::NoSet)?;
        let mut keys = BTreeMap::new();
        for key in written.keys {
            let Some(algorithm) = key.algorithm() else { continue };
            let id = key.kid.clone().filter(|id| !id.is_empty()).ok_or(BadKeys::WithoutId)?;
            if key.d.is_some() {
                return Err(BadKeys::Private(id));
            }
            let verifying = key.verifying(algorithm).ok_or_else(|| BadKeys::Unusable(id.clone()))?;
            if keys.insert(id.clone(), Key { algorithm, verifying }).is_some() {
                return Err(BadKeys::Twice(id));
            }
        }
        if keys.is_empty() { Err(BadKeys::Empty) } else { Ok(KeySet { keys }) }
    }

    /// The ids of its keys.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    pub(super) fn key(&self, id: &str) -> Option<&Key> {
        self.keys.get(id)
    }
}

impl WrittenKey {
    /// What it verifies, if that is anything of ours.
    fn algorithm(&self) -> Option<Algorithm> {
        let (algorithm, name) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", None) => (Algorithm::RS256, "RS256"),
            ("OKP", Some("Ed25519")) => (Algorithm::EdDSA, "EdDSA"),
            _ => return None,
        };
        let signs = self.purpose.as_deref().is_none_or(|purpose| purpose == "sig");
        let verifies = self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let named = self.alg.as_deref().is_none_or(|alg| alg == name);
        (signs && verifies && named).then_some(algorithm)
    }

    fn verifying(&self, algorithm: Algorithm) -> Option<DecodingKey> {
        if algorithm == Algorithm::EdDSA {
            let key = decoded(self.x.as_deref()?)?;
            return (key.len() == ED25519_BYTES).then(|| DecodingKey::from_ed_der(&key));
        }
        let (n, e) = (decoded(self.n.as_deref()?)?, decoded(self.e.as_deref()?)?);
        let significant = |bytes: &[u8]| bytes.iter().skip_while(|byte| **byte == 0).copied().collect();
        let (n, e): (Vec<u8>, Vec<u8>) = (significant(&n), significant(&e));
        let usable = RSA_BYTES.contains(&n.len()) && !e.is_empty();
        usable.then(|| DecodingKey::from_rsa_raw_components(&n, &e))
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
