//! Keys of signatures, in the text forms of the Standard Webhooks specification.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::error::Unspecified;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use ring::{hmac, rand};

/// Permitted sizes of a secret, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Size of a new secret, in bytes: that of the hash.
const NEW_SECRET_BYTES: usize = 32;
/// Size of a seed and of a public key of Ed25519, in bytes.
const ED25519_BYTES: usize = 32;

/// Reason why a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The text is not a secret.
    #[error("a secret must be whsec_ followed by 24 to 64 bytes in base64")]
    Secret,
    /// The text is not a private key.
    #[error(
        "a private key must be whsk_ followed by 64 bytes in base64: the seed and the public key of Ed25519"
    )]
    PrivateKey,
    /// The text is not a public key.
    #[error("a public key must be whpk_ followed by 32 bytes in base64")]
    PublicKey,
}

/// A secret for symmetric signatures (`v1`), shared with the receiver: `whsec_...`.
#[derive(Clone)]
pub struct Secret {
    bytes: Vec<u8>,
    key: hmac::Key,
}

impl Secret {
    /// Creates a random secret. Fails if the machine has no random source.
    pub fn generate() -> Result<Secret, Unspecified> {
        let bytes: [u8; NEW_SECRET_BYTES] = rand::generate(&SystemRandom::new())?.expose();
        Ok(Secret::of_bytes(bytes.to_vec()))
    }

    fn of_bytes(bytes: Vec<u8>) -> Secret {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        Secret { bytes, key }
    }

    /// The text form, which contains the secret.
    pub fn reveal(&self) -> String {
        format!("whsec_{}", BASE64.encode(&self.bytes))
    }

    pub(crate) fn verifies(&self, content: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.key, content, signature).is_ok()
    }
}

impl FromStr for Secret {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Secret, InvalidKey> {
        let bytes = decoded("whsec_", text).ok_or(InvalidKey::Secret)?;
        if SECRET_BYTES.contains(&bytes.len()) {
            Ok(Secret::of_bytes(bytes))
        } else {
            Err(InvalidKey::Secret)
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A key pair for asymmetric signatures (`v1a`). The private key is `whsk_...`: seed and public key, as in libsodium.
pub struct KeyPair {
    seed: [u8; ED25519_BYTES],
    pair: Ed25519KeyPair,
}

impl KeyPair {
    /// Creates a random key pair. Fails if the machine has no random source.
    pub fn generate() -> Result<KeyPair, Unspecified> {
        let mut seed = [0; ED25519_BYTES];
        SystemRandom::new().fill(&mut seed)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| Unspecified)?;
        Ok(KeyPair { seed, pair })
    }

    /// The text form of the private key.
    pub fn reveal(&self) -> String {
        let mut bytes = self.seed.to_vec();
        bytes.extend_from_slice(self.pair.public_key().as_ref());
        format!("whsk_{}", BASE64.encode(bytes))
    }

    /// The text form of the public key: `whpk_...`.
    pub fn public_key(&self) -> String {
        format!("whpk_{}", BASE64.encode(self.pair.public_key()))
    }
}

impl FromStr for KeyPair {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<KeyPair, InvalidKey> {
        let bytes = decoded("whsk_", text).ok_or(InvalidKey::PrivateKey)?;
        let (seed, public) = bytes.split_first_chunk().ok_or(InvalidKey::PrivateKey)?;
        let pair =
            Ed25519KeyPair::from_seed_and_public_key(seed, public).map_err(|_| InvalidKey::PrivateKey)?;
        Ok(KeyPair { seed: *seed, pair })
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public_key", &self.public_key()).finish_non_exhaustive()
    }
}

/// A public key for asymmetric signatures (`v1a`): `whpk_...`.
#[derive(Debug, Clone)]
pub struct PublicKey(UnparsedPublicKey<Vec<u8>>);

impl PublicKey {
    pub(crate) fn verifies(&self, content: &[u8], signature: &[u8]) -> bool {
        self.0.verify(content, signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<PublicKey, InvalidKey> {
        let bytes = decoded("whpk_", text).filter(|bytes| bytes.len() == ED25519_BYTES);
        Ok(PublicKey(UnparsedPublicKey::new(&ED25519, bytes.ok_or(InvalidKey::PublicKey)?)))
    }
}

/// A key that signs requests.
#[derive(Debug)]
pub enum SigningKey {
    /// Symmetric signature, `v1`.
    Secret(Secret),
    /// Asymmetric signature, `v1a`.
    KeyPair(KeyPair),
}

impl SigningKey {
    /// The signature with its version.
    pub(crate) fn sign(&self, content: &[u8]) -> String {
        match self {
            SigningKey::Secret(secret) => format!("v1,{}", BASE64.encode(hmac::sign(&secret.key, content))),
            SigningKey::KeyPair(keys) => format!("v1a,{}", BASE64.encode(keys.pair.sign(content))),
        }
    }
}

/// A key that verifies requests.
#[derive(Debug, Clone)]
pub enum VerifyingKey {
    /// Symmetric signature, `v1`.
    Secret(Secret),
    /// Asymmetric signature, `v1a`.
    PublicKey(PublicKey),
}

impl FromStr for VerifyingKey {
    type Err = InvalidKey;

    /// Parses `whsec_...` or `whpk_...`.
    fn from_str(text: &str) -> Result<VerifyingKey, InvalidKey> {
        if text.starts_with("whpk_") {
            text.parse().map(VerifyingKey::PublicKey)
        } else {
            text.parse().map(VerifyingKey::Secret)
        }
    }
}

/// The bytes after this prefix.
fn decoded(prefix: &str, text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.strip_prefix(prefix)?).ok()
}
