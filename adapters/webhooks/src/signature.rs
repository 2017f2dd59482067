//! Signatures of requests: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use chrono::{DateTime, TimeDelta, Utc};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, InvalidHeaderValue};

use crate::keys::{SigningKey, VerifyingKey};

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Greatest permitted difference between the timestamp of a request and the clock of its receiver.
pub const TOLERANCE: TimeDelta = TimeDelta::minutes(5);

/// The signed content of a request.
#[derive(Debug, Clone, Copy)]
pub struct Message<'m> {
    /// Header `webhook-id`.
    pub id: &'m str,
    /// Header `webhook-timestamp`, in seconds since 1970.
    pub timestamp: i64,
    /// Body.
    pub body: &'m [u8],
}

impl Message<'_> {
    /// Sets the three headers, with one signature per key in this order. Fails if the id is not a header value.
    pub fn sign(&self, headers: &mut HeaderMap, keys: &[SigningKey]) -> Result<(), InvalidHeaderValue> {
        let content = self.content();
        let signatures: Vec<String> = keys.iter().map(|key| key.sign(&content)).collect();
        headers.insert(ID, HeaderValue::from_str(self.id)?);
        headers.insert(TIMESTAMP, HeaderValue::from(self.timestamp));
        headers.insert(SIGNATURE, HeaderValue::from_str(&signatures.join(" "))?);
        Ok(())
    }

    fn content(&self) -> Vec<u8> {
        let mut content = format!("{}.{}.", self.id, self.timestamp).into_bytes();
        content.extend_from_slice(self.body);
        content
    }
}

/// Reason why a request is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A header is missing, repeated or not text.
    #[error("the request must have exactly one header {0}")]
    Header(HeaderName),
    /// The timestamp is not a number of seconds.
    #[error("the header webhook-timestamp is not a number of seconds since 1970")]
    Timestamp,
    /// The request was signed too long ago: it may be a replayed one.
    #[error("the request was signed more than 5 minutes ago; compare the clocks of sender and receiver")]
    TooOld,
    /// The request was signed in the future.
    #[error(
        "the request was signed more than 5 minutes in the future; compare the clocks of sender and receiver"
    )]
    TooNew,
    /// No signature belongs to one of the keys, the headers and the body.
    #[error("no signature matches: the secret is another one, or the request was changed on its way")]
    NoMatch,
}

/// Verifies the signature of a received request: one signature by one of these keys is enough. `body` must be the bytes of
/// the body as they were received.
pub fn verify(
    headers: &HeaderMap,
    body: &[u8],
    keys: &[VerifyingKey],
    now: DateTime<Utc>,
) -> Result<(), VerifyError> {
    let id = single(headers, ID)?;
    let signatures = single(headers, SIGNATURE)?;
    let timestamp = single(headers, TIMESTAMP)?.parse().map_err(|_| VerifyError::Timestamp)?;
    let at = DateTime::from_timestamp(timestamp, 0).ok_or(VerifyError::Timestamp)?;
    if now.signed_duration_since(at) > TOLERANCE {
        return Err(VerifyError::TooOld);
    }
    if at.signed_duration_since(now) > TOLERANCE {
        return Err(VerifyError::TooNew);
    }
    let content = Message { id, timestamp, body }.content();
    let is_signed = signatures.split(' ').filter_map(|signature| signature.split_once(',')).any(
        |(version, signature)| {
            let Ok(signature) = BASE64.decode(signature) else { return false };
            keys.iter().any(|key| match (version, key) {
                ("v1", VerifyingKey::Secret(secret)) => secret.verifies(&content, &signature),
                ("v1a", VerifyingKey::PublicKey(key)) => key.verifies(&content, &signature),
                (_, VerifyingKey::Secret(_) | VerifyingKey::PublicKey(_)) => false,
            })
        },
    );
    if is_signed { Ok(()) } else { Err(VerifyError::NoMatch) }
}

/// The value of a header that must occur once: receivers disagree on which of several values counts.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<&str, VerifyError> {
    let mut values = headers.get_all(&name).into_iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (None | Some(_), _) => None,
    };
    value.ok_or(VerifyError::Header(name))
}
