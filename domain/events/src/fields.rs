//! Reads required fields out of a JSON object and says which one is missing or ill-typed.

use chrono::{DateTime, Datelike, NaiveDate, SubsecRound, Utc};
use serde_json::{Map, Value};

use crate::IdError;

/// Why a text is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not JSON, or not an object.
    #[error("the message is not a JSON object: {why}")]
    NotAnObject {
        /// What the parser says.
        why: String,
    },
    /// A required field is absent (or null).
    #[error("required field `{field}` is missing")]
    Missing {
        /// Its path from the root of the envelope.
        field: String,
    },
    /// A required field has another type or form.
    #[error("field `{field}` must be {expected}")]
    IllTyped {
        /// Its path from the root of the envelope.
        field: String,
        /// What it must be.
        expected: &'static str,
    },
    /// No such event type exists (000 §9.3).
    #[error("event type `{name}` is not supported")]
    UnknownType {
        /// The name that was given.
        name: String,
    },
    /// Two fields contradict each other.
    #[error("field `{field}` contradicts `{other}`")]
    Contradiction {
        /// One of them.
        field: String,
        /// The other.
        other: &'static str,
    },
}

/// A JSON object that is read field by field, so that a refusal names the field.
pub struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: &'static str,
}

impl<'a> Fields<'a> {
    /// The fields of an object; `path` is where it lies within the envelope, for errors.
    pub fn of(value: &'a Value, path: &'static str) -> Result<Self, EnvelopeError> {
        match value {
            Value::Object(map) => Ok(Fields { map, path }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(EnvelopeError::NotAnObject { why: "expected an object".into() })
            }
        }
    }

    /// Whether a field is there and not null.
    pub fn has(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(|value| !value.is_null())
    }

    /// A field of any type.
    pub fn value(&self, name: &str) -> Result<&'a Value, EnvelopeError> {
        self.map
            .get(name)
            .filter(|v| !v.is_null())
            .ok_or_else(|| EnvelopeError::Missing { field: self.full(name) })
    }

    /// A field that is an object.
    pub fn object(&self, name: &str) -> Result<&'a Value, EnvelopeError> {
        let value = self.value(name)?;
        if value.is_object() { Ok(value) } else { Err(self.ill(name, "an object")) }
    }

    /// A field that is a string.
    pub fn text(&self, name: &str) -> Result<&'a str, EnvelopeError> {
        self.value(name)?.as_str().ok_or_else(|| self.ill(name, "a string"))
    }

    /// A field that is an integer.
    pub fn integer(&self, name: &str) -> Result<i64, EnvelopeError> {
        self.value(name)?.as_i64().ok_or_else(|| self.ill(name, "an integer"))
    }

    /// A field that is an id.
    pub fn id<I: TryFrom<i64, Error = IdError>>(&self, name: &str) -> Result<I, EnvelopeError> {
        I::try_from(self.integer(name)?).map_err(|_| self.ill(name, "an integer from 1 to 9007199254740991"))
    }

    /// A field that may be absent or null, but not ill-typed.
    pub fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, EnvelopeError>,
    ) -> Result<Option<T>, EnvelopeError> {
        if self.has(name) { read(self, name).map(Some) } else { Ok(None) }
    }

    /// A field that is a time of RFC 3339, to the microsecond.
    pub fn time(&self, name: &str) -> Result<DateTime<Utc>, EnvelopeError> {
        DateTime::parse_from_rfc3339(self.text(name)?)
            // As exact as it is written and stored: to the microsecond.
            .map(|time| time.with_timezone(&Utc).trunc_subsecs(6))
            .ok()
            // An offset can carry it out of the years that RFC 3339 can write.
            .filter(|time| (0..=9999).contains(&time.year()))
            .ok_or_else(|| self.ill(name, "an RFC 3339 time"))
    }

    /// A day as we write it; chrono alone would also read `26-2-4` and `2026 - 02 - 04`.
    pub fn day(&self, name: &str) -> Result<NaiveDate, EnvelopeError> {
        let text = self.text(name)?;
        let day = text.parse::<NaiveDate>().ok();
        day.filter(|day| (0..=9999).contains(&day.year()) && day.to_string() == text)
            .ok_or_else(|| self.ill(name, "a date"))
    }

    /// A field that is one of the texts of a type; `expected` says which those are.
    pub fn named<T: std::str::FromStr>(
        &self,
        name: &str,
        expected: &'static str,
    ) -> Result<T, EnvelopeError> {
        self.text(name)?.parse().map_err(|_| self.ill(name, expected))
    }

    /// The error of a field that is not what it must be.
    pub fn ill(&self, name: &str, expected: &'static str) -> EnvelopeError {
        EnvelopeError::IllTyped { field: self.full(name), expected }
    }

    /// The path of a field from the root of the envelope.
    pub fn full(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}
