//! Reads fields of a JSON object; errors name the field that is missing or has the wrong type.

use chrono::{DateTime, Datelike, NaiveDate, SubsecRound, Utc};

use crate::aggregate::AggregateId;
use crate::ids::IdError;
use crate::json::Json;

/// Reason why a text is not a valid event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The text is not JSON, or not a JSON object.
    #[error("the message is not a JSON object: {why}")]
    NotAnObject {
        /// The parser's error message.
        why: String,
    },
    /// A required field is absent or null.
    #[error("required field `{field}` is missing")]
    Missing {
        /// The path of the field from the root of the envelope.
        field: String,
    },
    /// A field has the wrong type or format.
    #[error("field `{field}` must be {expected}")]
    WrongType {
        /// The path of the field from the root of the envelope.
        field: String,
        /// The expected type or format.
        expected: &'static str,
    },
    /// The event type is unknown.
    #[error("event type `{name}` is not supported")]
    UnknownType {
        /// The unknown event type.
        name: String,
    },
    /// Two fields contradict each other, such as the aggregate id of the envelope and that of the payload.
    #[error("field `{field}` contradicts `{other}`")]
    Contradiction {
        /// The path of the field that contradicts `other`.
        field: String,
        /// The path of the field that `field` contradicts.
        other: &'static str,
    },
}

/// A JSON object whose fields are read one by one, so that an error names the field.
pub struct Fields<'a> {
    object: &'a Json,
    path: &'static str,
}

impl<'a> Fields<'a> {
    /// Wraps a JSON object; `path` is its path within the envelope, for error messages.
    pub fn of(value: &'a Json, path: &'static str) -> Result<Self, EnvelopeError> {
        if value.is_object() {
            Ok(Fields { object: value, path })
        } else {
            Err(EnvelopeError::NotAnObject { why: "expected an object".into() })
        }
    }

    /// Whether a field is present and not null.
    pub fn has(&self, name: &str) -> bool {
        self.object.get(name).is_some_and(|value| *value != Json::Null)
    }

    /// Reads a required field of any type.
    pub fn value(&self, name: &str) -> Result<&'a Json, EnvelopeError> {
        self.object
            .get(name)
            .filter(|value| **value != Json::Null)
            .ok_or_else(|| EnvelopeError::Missing { field: self.full(name) })
    }

    /// Reads a required field that is an object.
    pub fn object(&self, name: &str) -> Result<&'a Json, EnvelopeError> {
        let value = self.value(name)?;
        if value.is_object() { Ok(value) } else { Err(self.wrong_type(name, "an object")) }
    }

    /// Reads a required field that is a string.
    pub fn text(&self, name: &str) -> Result<&'a str, EnvelopeError> {
        self.value(name)?.as_str().ok_or_else(|| self.wrong_type(name, "a string"))
    }

    /// Reads a required field that is an integer.
    pub fn integer(&self, name: &str) -> Result<i64, EnvelopeError> {
        self.value(name)?.as_i64().ok_or_else(|| self.wrong_type(name, "an integer"))
    }

    /// Reads a required field that is the id of an aggregate: an integer, or a string with a text key.
    pub fn aggregate_id(&self, name: &str) -> Result<AggregateId, EnvelopeError> {
        AggregateId::from_json(self.value(name)?)
            .map_err(|_| self.wrong_type(name, "an integer or a string of 1 to 255 bytes"))
    }

    /// Reads a required field that is an id.
    pub fn id<I: TryFrom<i64, Error = IdError>>(&self, name: &str) -> Result<I, EnvelopeError> {
        I::try_from(self.integer(name)?)
            .map_err(|_| self.wrong_type(name, "an integer from 1 to 9007199254740991"))
    }

    /// Reads a field that may be absent or null; a value of the wrong type is an error.
    pub fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, EnvelopeError>,
    ) -> Result<Option<T>, EnvelopeError> {
        if self.has(name) { read(self, name).map(Some) } else { Ok(None) }
    }

    /// Reads a required field that is an RFC 3339 time, truncated to microseconds.
    pub fn time(&self, name: &str) -> Result<DateTime<Utc>, EnvelopeError> {
        DateTime::parse_from_rfc3339(self.text(name)?)
            // Times are written and stored with microsecond precision.
            .map(|time| time.with_timezone(&Utc).trunc_subsecs(6))
            .ok()
            // The UTC offset can move the time outside the years that RFC 3339 can represent.
            .filter(|time| (0..=9999).contains(&time.year()))
            .ok_or_else(|| self.wrong_type(name, "an RFC 3339 time"))
    }

    /// Reads a required date in the format `YYYY-MM-DD`. Other forms that the parser of chrono accepts, such as
    /// `26-2-4`, are rejected.
    pub fn day(&self, name: &str) -> Result<NaiveDate, EnvelopeError> {
        let text = self.text(name)?;
        let day = text.parse::<NaiveDate>().ok();
        day.filter(|day| (0..=9999).contains(&day.year()) && day.to_string() == text)
            .ok_or_else(|| self.wrong_type(name, "a date"))
    }

    /// Reads a required field with the `FromStr` of its type; `expected` describes the accepted values in the error.
    pub fn named<T: std::str::FromStr>(
        &self,
        name: &str,
        expected: &'static str,
    ) -> Result<T, EnvelopeError> {
        self.text(name)?.parse().map_err(|_| self.wrong_type(name, expected))
    }

    /// The error for a field of the wrong type or format.
    pub fn wrong_type(&self, name: &str, expected: &'static str) -> EnvelopeError {
        EnvelopeError::WrongType { field: self.full(name), expected }
    }

    /// The path of a field from the root of the envelope.
    pub fn full(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}
