//! The aggregate that an event belongs to.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::ids::TenantId;
use crate::json::Json;

/// Identifies an aggregate within a tenant. The type is text, because a row or message of another writer may name an
/// unknown type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateRef {
    /// The tenant that the aggregate belongs to.
    pub tenant: TenantId,
    /// The aggregate type: `Book`, `Reader`, ...
    pub kind: String,
    /// The id within the aggregate type.
    pub id: AggregateId,
}

/// Reason why a value is not the id of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AggregateIdError {
    /// The value is neither an integer of 64 bits nor a valid text key.
    #[error(
        "must be an integer, or a text of 1 to 255 bytes without control characters and without blanks at its ends"
    )]
    Invalid,
    /// The stored number of a text key is not its hash.
    #[error("the number is not the hash of the text key")]
    NotItsHash,
}

/// Maximum length of a text key in bytes.
pub const MAX_AGGREGATE_KEY_BYTES: usize = 255;

/// Id of an aggregate: an integer, or a text key such as a UUID.
///
/// The type decides, not the text: the text key `5` and the integer 5 are different ids. In JSON, an integer is a number
/// and a text key is a string.
///
/// A text key has 1 to 255 bytes, no control characters, and no blanks at its ends. It is compared byte by byte.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AggregateId(Id);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Id {
    Number(i64),
    Text { number: i64, key: Arc<str> },
}

impl AggregateId {
    /// The text key with these contents.
    pub fn text(key: &str) -> Result<AggregateId, AggregateIdError> {
        let is_valid = (1..=MAX_AGGREGATE_KEY_BYTES).contains(&key.len())
            && key.trim() == key
            && !key.chars().any(char::is_control);
        if is_valid { Ok(AggregateId::of_text(key)) } else { Err(AggregateIdError::Invalid) }
    }

    /// The id with this number and key, as they are stored. Fails if the key is invalid or the number is not its hash.
    pub fn stored(number: i64, key: Option<&str>) -> Result<AggregateId, AggregateIdError> {
        let Some(key) = key else { return Ok(AggregateId::from(number)) };
        let id = AggregateId::text(key)?;
        if id.number() == number { Ok(id) } else { Err(AggregateIdError::NotItsHash) }
    }

    /// Parses an id that a person wrote, for instance in a command line or URL: an integer is written without leading
    /// zeros and `+`; a text in double quotes is a JSON string with the text key, so `"5"` is the text key `5`; every
    /// other text that is no number is the text key itself.
    pub fn parse(text: &str) -> Result<AggregateId, AggregateIdError> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text.parse().ok().filter(|number: &i64| number.to_string() == text);
            return number.map(AggregateId::from).ok_or(AggregateIdError::Invalid);
        }
        if text.len() > 1 && text.starts_with('"') && text.ends_with('"') {
            let quoted = Json::parse(text).map_err(|_| AggregateIdError::Invalid)?;
            return AggregateId::text(quoted.as_str().unwrap_or_default());
        }
        AggregateId::text(text)
    }

    /// The id of a JSON value: an integer is a number, a text key is a string.
    pub fn from_json(value: &Json) -> Result<AggregateId, AggregateIdError> {
        match value.as_str() {
            Some(key) => AggregateId::text(key),
            None => value.as_i64().map(AggregateId::from).ok_or(AggregateIdError::Invalid),
        }
    }

    /// The integer that is stored as `aggregate_id`: the integer itself, or the hash of the text key. The partition, the
    /// order and the sequence numbers of an aggregate depend on it.
    ///
    /// The hash is the first 8 bytes of the SHA-256 of the text, read as a big-endian integer with the highest bit set:
    /// it is always negative. It never changes, because rows contain it.
    pub const fn number(&self) -> i64 {
        match &self.0 {
            Id::Number(number) | Id::Text { number, .. } => *number,
        }
    }

    /// The text key; `None` for an integer.
    pub fn key(&self) -> Option<&str> {
        match &self.0 {
            Id::Number(_) => None,
            Id::Text { key, .. } => Some(key),
        }
    }

    fn of_text(key: &str) -> AggregateId {
        let hash = Sha256::digest(key.as_bytes());
        let first = hash.iter().take(8).fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
        AggregateId(Id::Text { number: (first | 1 << 63).cast_signed(), key: key.into() })
    }
}

impl From<i64> for AggregateId {
    fn from(number: i64) -> AggregateId {
        AggregateId(Id::Number(number))
    }
}

impl From<i32> for AggregateId {
    fn from(number: i32) -> AggregateId {
        i64::from(number).into()
    }
}

impl From<u32> for AggregateId {
    fn from(number: u32) -> AggregateId {
        i64::from(number).into()
    }
}

/// The text key is the UUID with hyphens, in lower case.
impl From<Uuid> for AggregateId {
    fn from(id: Uuid) -> AggregateId {
        AggregateId::of_text(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

impl TryFrom<String> for AggregateId {
    type Error = AggregateIdError;

    fn try_from(key: String) -> Result<AggregateId, AggregateIdError> {
        AggregateId::text(&key)
    }
}

impl PartialEq<i64> for AggregateId {
    fn eq(&self, number: &i64) -> bool {
        self.0 == Id::Number(*number)
    }
}

impl fmt::Display for AggregateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Id::Number(number) => fmt::Display::fmt(number, f),
            Id::Text { key, .. } => fmt::Display::fmt(key, f),
        }
    }
}

impl Serialize for AggregateId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Id::Number(number) => serializer.serialize_i64(*number),
            Id::Text { key, .. } => serializer.serialize_str(key),
        }
    }
}

impl<'de> Deserialize<'de> for AggregateId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AggregateId, D::Error> {
        AggregateId::from_json(&Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl From<&AggregateId> for Json {
    fn from(id: &AggregateId) -> Json {
        match &id.0 {
            Id::Number(number) => Json::from(*number),
            Id::Text { key, .. } => Json::from(&**key),
        }
    }
}

/// A type of fields that can be the id of an aggregate: an integer, a `Uuid`, a `String`, or a type that
/// [`integer_id`](crate::integer_id) declares.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the id of an aggregate",
    label = "not an integer, `Uuid` or `String`",
    note = "the field with `#[event(key)]` is an `i64`, `i32`, `u32`, `Uuid` or `String`, or a type of `integer_id!`"
)]
pub trait EventKey {
    /// The id of the aggregate. Only a `String` can be invalid.
    fn aggregate_id(&self) -> Result<AggregateId, AggregateIdError>;
}

macro_rules! event_key {
    ($($type:ty),+) => {$(
        impl EventKey for $type {
            fn aggregate_id(&self) -> Result<AggregateId, AggregateIdError> {
                Ok(AggregateId::from(*self))
            }
        }
    )+};
}

event_key!(i64, i32, u32, Uuid);

impl EventKey for String {
    fn aggregate_id(&self) -> Result<AggregateId, AggregateIdError> {
        AggregateId::text(self)
    }
}
