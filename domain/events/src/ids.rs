//! Identifiers: integers that a JSON number represents exactly, and the event id.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The largest integer id: 2^53 - 1, the largest integer that every JSON parser reads exactly.
pub const MAX_ID: i64 = (1 << 53) - 1;

/// Reason why a value is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The value is not an integer from 1 to 2^53 - 1.
    #[error("must be an integer from 1 to 9007199254740991")]
    OutOfRange,
    /// The event id does not consist of 1 to 64 visible ASCII characters.
    #[error("must be 1 to 64 visible ASCII characters")]
    NotAnEventId,
}

/// Declares identifier types: integers from 1 to [`MAX_ID`](crate::MAX_ID). `TryFrom<i64>` and `FromStr` fail with
/// [`IdError`](crate::IdError). In JSON an id is a number. A crate that uses this macro must depend on
/// serde and serde_json.
#[macro_export]
macro_rules! integer_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize,
        )]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(i64);

        impl $name {
            /// The id as the integer that is stored in columns and JSON.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = $crate::IdError;
            fn try_from(value: i64) -> Result<Self, $crate::IdError> {
                if (1..=$crate::MAX_ID).contains(&value) { Ok(Self(value)) } else { Err($crate::IdError::OutOfRange) }
            }
        }

        impl From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0
            }
        }

        impl TryFrom<&$crate::AggregateId> for $name {
            type Error = $crate::IdError;
            fn try_from(id: &$crate::AggregateId) -> Result<Self, $crate::IdError> {
                if id.key().is_some() { Err($crate::IdError::OutOfRange) } else { id.number().try_into() }
            }
        }

        impl $crate::EventKey for $name {
            fn aggregate_id(&self) -> Result<$crate::AggregateId, $crate::AggregateIdError> {
                Ok(self.0.into())
            }
        }

        impl $crate::Field for $name {
            fn read(fields: &$crate::Fields<'_>, name: &str) -> Result<Self, $crate::EnvelopeError> {
                fields.id(name)
            }

            fn schema() -> ::serde_json::Value {
                $crate::id_schema()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::IdError;
            fn from_str(text: &str) -> Result<Self, $crate::IdError> {
                text.parse::<i64>().map_err(|_| $crate::IdError::OutOfRange)?.try_into()
            }
        }
    )+};
}

integer_id! {
    /// A tenant of a deployment.
    TenantId,
}

impl TenantId {
    /// The tenant of a token or row that does not name one.
    pub const DEFAULT: TenantId = TenantId(1);
}

/// The id of an event, and its idempotency key.
///
/// Generated ids are UUIDv7; a row inserted with SQL may have any 1 to 64 visible ASCII characters
/// (`event_id VARCHAR(64)`). Clones share the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EventId(Arc<str>);

impl EventId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<uuid::Uuid> for EventId {
    fn from(id: uuid::Uuid) -> Self {
        EventId(id.hyphenated().to_string().into())
    }
}

impl TryFrom<String> for EventId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        let legal = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(EventId(text.into())) } else { Err(IdError::NotAnEventId) }
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> String {
        id.as_str().to_owned()
    }
}

impl std::str::FromStr for EventId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        text.to_owned().try_into()
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
