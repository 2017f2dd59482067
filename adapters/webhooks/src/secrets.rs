//! Encryption of the secrets and static headers of endpoints.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use handover_outbox::ports::{EndpointId, Sealed, SecretError};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{self, SystemRandom};

/// Minimum length of the configured text of a key, in bytes.
const MIN_KEY_BYTES: usize = 32;
/// Begin of every encrypted text: the version of its form, of the derivation of the key and of the cipher.
const VERSION: &str = "v1";
/// Length of a fingerprint, in bytes.
const FINGERPRINT_BYTES: usize = 4;

/// The configured text of a key is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key must have at least {MIN_KEY_BYTES} bytes")]
pub struct InvalidSecretKey;

/// Content of an encrypted text. A text with one purpose cannot be used for another.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Secret and private key of an endpoint.
    Secret,
    /// Static headers of an endpoint.
    Headers,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Purpose::Secret => "secret",
            Purpose::Headers => "headers",
        }
    }
}

/// A key that encrypts secrets.
pub struct SecretKey {
    key: LessSafeKey,
    /// Identifies the key in the texts that it encrypted, and does not reveal it.
    fingerprint: String,
}

impl SecretKey {
    /// Derives the key from its configured text, which must be random.
    pub fn new(text: &str) -> Result<SecretKey, InvalidSecretKey> {
        if text.len() < MIN_KEY_BYTES {
            return Err(InvalidSecretKey);
        }
        let random = Salt::new(HKDF_SHA256, b"handover webhooks").extract(text.as_bytes());
        let key = random.expand(&[b"encryption"], &CHACHA20_POLY1305).map_err(|_| InvalidSecretKey)?;
        let mut fingerprint = [0; 32];
        let identity = random.expand(&[b"fingerprint"], HKDF_SHA256).map_err(|_| InvalidSecretKey)?;
        identity.fill(&mut fingerprint).map_err(|_| InvalidSecretKey)?;
        let fingerprint = fingerprint[..FINGERPRINT_BYTES].iter().map(|byte| format!("{byte:02x}"));
        Ok(SecretKey { key: LessSafeKey::new(UnboundKey::from(key)), fingerprint: fingerprint.collect() })
    }

    /// Begin of the texts that this key encrypted.
    fn prefix(&self) -> String {
        format!("{VERSION}.{}.", self.fingerprint)
    }

    fn open(&self, endpoint: EndpointId, purpose: Purpose, sealed: &Sealed) -> Option<String> {
        let encoded = sealed.0.strip_prefix(&self.prefix())?;
        let bytes = BASE64.decode(encoded).ok()?;
        let (nonce, encrypted) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut text = encrypted.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self.key.open_in_place(nonce, associated(endpoint, purpose), &mut text).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

/// The key that encrypts secrets, and the one before it, which still decrypts them.
#[derive(Debug)]
pub struct SecretKeys {
    current: SecretKey,
    previous: Option<SecretKey>,
}

impl SecretKeys {
    /// The current and the previous key.
    pub fn new(current: SecretKey, previous: Option<SecretKey>) -> SecretKeys {
        SecretKeys { current, previous }
    }

    /// Encrypts a text of an endpoint with the current key.
    pub(crate) fn seal(
        &self,
        endpoint: EndpointId,
        purpose: Purpose,
        text: &str,
    ) -> Result<Sealed, SecretError> {
        let failed = |_| SecretError::NoRandomness;
        let nonce: [u8; NONCE_LEN] = rand::generate(&SystemRandom::new()).map_err(failed)?.expose();
        let mut encrypted = text.as_bytes().to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        // Fails only for a text of more than 256 GB.
        self.current
            .key
            .seal_in_place_append_tag(unique, associated(endpoint, purpose), &mut encrypted)
            .map_err(failed)?;
        let bytes = [&nonce[..], &encrypted].concat();
        Ok(Sealed(self.current.prefix() + &BASE64.encode(bytes)))
    }

    /// Decrypts a text of an endpoint with the key that encrypted it.
    pub(crate) fn open(
        &self,
        endpoint: EndpointId,
        purpose: Purpose,
        sealed: &Sealed,
    ) -> Result<String, SecretError> {
        let mut keys = [&self.current].into_iter().chain(&self.previous);
        keys.find_map(|key| key.open(endpoint, purpose, sealed)).ok_or(SecretError::OtherKey(endpoint))
    }

    /// Encrypts a text with the current key; `None` if it is.
    pub(crate) fn reseal(
        &self,
        endpoint: EndpointId,
        purpose: Purpose,
        sealed: &Sealed,
    ) -> Result<Option<Sealed>, SecretError> {
        if self.current.open(endpoint, purpose, sealed).is_some() {
            return Ok(None);
        }
        let text = self.open(endpoint, purpose, sealed)?;
        self.seal(endpoint, purpose, &text).map(Some)
    }
}

/// A text that is copied to another endpoint, or to another purpose, cannot be decrypted.
fn associated(endpoint: EndpointId, purpose: Purpose) -> Aad<String> {
    Aad::from(format!("{VERSION} {} {endpoint}", purpose.as_str()))
}
