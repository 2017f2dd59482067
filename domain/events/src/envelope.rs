//! The envelope: the frozen outer format of every message.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::aggregate::AggregateId;
use crate::fields::{EnvelopeError, Fields};
use crate::ids::EventId;
use crate::json::Json;

/// An event on the wire. Names, nesting and order of the fields are frozen; additional fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Globally unique id; the idempotency key of consumers.
    pub event_id: EventId,
    /// The event type, as text, so that a consumer can reject a type that it does not support.
    pub event_type: String,
    /// The type of the aggregate.
    pub aggregate_type: String,
    /// The id of the aggregate: a number, or a string for a text key.
    pub aggregate_id: AggregateId,
    /// Time at which the event occurred, to the microsecond.
    #[serde(serialize_with = "rfc3339")]
    pub occurred_at: DateTime<Utc>,
    /// The trace id of the request that caused the event.
    pub trace_id: String,
    /// The event data, a JSON object. It is kept unchanged; numbers keep all their digits.
    pub payload: Json,
}

/// Writes a time as UTC with `Z` and six fraction digits, so that times sort as text. For serde's
/// `serialize_with`.
pub fn rfc3339<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::Micros, true))
}

impl Envelope {
    /// Parses an envelope. The error names the first required field that is missing or has the wrong type.
    pub fn parse(text: &str) -> Result<Envelope, EnvelopeError> {
        let json =
            Json::parse(text).map_err(|error| EnvelopeError::NotAnObject { why: error.to_string() })?;
        Envelope::of(json)
    }

    fn of(json: Json) -> Result<Envelope, EnvelopeError> {
        let fields = Fields::of(&json, "")?;
        let envelope = Envelope {
            event_id: fields.named("eventId", "1 to 64 visible ASCII characters")?,
            event_type: fields.text("eventType")?.to_owned(),
            aggregate_type: fields.text("aggregateType")?.to_owned(),
            aggregate_id: fields.aggregate_id("aggregateId")?,
            occurred_at: fields.time("occurredAt")?,
            trace_id: fields.text("traceId")?.to_owned(),
            payload: Json::Null,
        };
        fields.object("payload")?;
        Ok(Envelope { payload: json.into_field("payload").unwrap_or(Json::Null), ..envelope })
    }

    /// Serializes the envelope as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Envelope::of(Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
