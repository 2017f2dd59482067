//! Times, and stored JSON.

use chrono::{DateTime, SecondsFormat, Utc};
use handover_events::Json;
use serde::{Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::openapi::kinds;

/// A time, serialized in UTC with `Z` and six fraction digits, so that times sort as text.
#[derive(Debug)]
pub struct Time(
    /// The time.
    pub DateTime<Utc>,
);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::Micros, true))
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        kinds::Time::schema()
    }
}

impl ToSchema for Time {}

/// Parses a stored payload; text that is not JSON becomes a JSON string. Manually inserted rows and messages of other
/// systems may contain such text.
pub(super) fn json_or_text(text: String) -> Json {
    Json::parse(&text).unwrap_or(Json::String(text))
}
