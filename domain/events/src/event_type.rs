//! Typed events: a struct with `#[derive(Event)]` defines name, routing key, payload and schema of one event type.

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::aggregate::EventKey;
use crate::fields::{EnvelopeError, Fields};
use crate::ids::MAX_ID;
use crate::json::Json;

/// An event type. Implemented by `#[derive(Event)]` on the struct of its payload.
///
/// The derive macro of this crate also implements [`Payload`] and `Deserialize`; that of the crate `handover` is used
/// beside serde's own `Deserialize`.
///
/// The attribute `#[event(name = "..", aggregate = "..")]` on the struct is required; `routing_key = ".."` (otherwise
/// the name), `summary = ".."` and `unordered` are optional. `#[event(key)]` marks the field with the id of the
/// aggregate, and `#[event(visible)]` each field without personal data. Names in JSON follow `#[serde(rename)]`,
/// `#[serde(rename_all)]` and `#[serde(flatten)]`.
///
/// ```ignore
/// #[derive(Serialize, Deserialize, handover::Event)]
/// #[event(name = "book.lent", aggregate = "book")]
/// struct BookLent {
///     #[event(key)]
///     book: Uuid,
///     reader: String,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "does not implement `EventType`",
    note = "derive it: `#[derive(Serialize, Deserialize, handover::Event)] #[event(name = \"book.lent\", aggregate = \"book\")]`"
)]
pub trait EventType: Keyed + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Name of the event type in rows, messages and the consume log.
    const NAME: &'static str;
    /// Type of the aggregate that events of this type belong to.
    const AGGREGATE: &'static str;
    /// Routing key with which events of this type are published.
    const ROUTING_KEY: &'static str;
    /// Whether events of this type are ordered within their aggregate.
    const IS_ORDERED: bool;
    /// One sentence about the event, for the documentation.
    const SUMMARY: &'static str;

    /// Names of the fields without personal data.
    fn visible_fields() -> Vec<&'static str>;
}

/// The payload of an event type, or a part of it that several event types share. Implemented by `#[derive(Event)]` and
/// `#[derive(Payload)]`.
pub trait Payload: Sized {
    /// Reads the fields in the order in which they are written. The error names the first field that is missing or has
    /// the wrong type. Other fields of the object are ignored.
    fn read(fields: &Fields<'_>) -> Result<Self, EnvelopeError>;

    /// The sets of fields that a payload can have; most payloads have exactly one.
    fn alternatives() -> Vec<Alternative>;
}

/// A payload, or a part of it, that contains the id of the event's aggregate.
pub trait Keyed {
    /// Name of the field in JSON.
    const KEY_FIELD: &'static str;

    /// Type of the field.
    type Key: EventKey;

    /// The field with the id of the aggregate.
    fn key(&self) -> &Self::Key;
}

/// A type of payload fields; `T` is the type of the value in the struct.
pub trait Field<T = Self> {
    /// Whether the field must be present.
    const IS_REQUIRED: bool = true;

    /// Reads the field.
    fn read(fields: &Fields<'_>, name: &str) -> Result<T, EnvelopeError>;

    /// JSON Schema (draft 7) of the value.
    fn schema() -> Value;
}

/// Description of one payload field.
#[derive(Debug, Clone, PartialEq)]
pub struct PayloadField {
    /// Name in JSON.
    pub name: &'static str,
    /// Whether the field must be present.
    pub is_required: bool,
    /// Whether readers without access to personal data see the field.
    pub is_visible: bool,
    /// JSON Schema of the value.
    pub schema: Value,
}

impl PayloadField {
    /// Describes a field of type `F`.
    pub fn of<T, F: Field<T>>(name: &'static str, is_visible: bool) -> PayloadField {
        PayloadField { name, is_required: F::IS_REQUIRED, is_visible, schema: F::schema() }
    }
}

/// A set of fields that a payload can have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Alternative {
    /// The fields, in the order in which they are written.
    pub fields: Vec<PayloadField>,
    /// Fields that must be absent, because they belong to another alternative.
    pub absent: Vec<&'static str>,
}

impl Alternative {
    /// An object with these fields; other fields are allowed.
    fn schema(&self) -> Value {
        let required = self.fields.iter().filter(|field| field.is_required).map(|field| field.name);
        let required: Vec<&str> = required.collect();
        let properties = self.fields.iter().map(|field| (field.name.to_owned(), field.schema.clone()));
        let properties: Map<String, Value> = properties.collect();
        let mut schema = json!({ "type": "object", "required": required, "properties": properties });
        if !self.absent.is_empty() {
            schema["not"] = json!({ "required": self.absent });
        }
        schema
    }
}

/// Adds a field to each alternative. Used by generated code.
pub fn with_field(mut alternatives: Vec<Alternative>, field: &PayloadField) -> Vec<Alternative> {
    for alternative in &mut alternatives {
        alternative.fields.push(field.clone());
    }
    alternatives
}

/// Combines each alternative with each alternative of a flattened part. Used by generated code.
pub fn with_part(alternatives: &[Alternative], part: &[Alternative]) -> Vec<Alternative> {
    let combined = |one: &Alternative, other: &Alternative| Alternative {
        fields: one.fields.iter().chain(&other.fields).cloned().collect(),
        absent: one.absent.iter().chain(&other.absent).copied().collect(),
    };
    alternatives.iter().flat_map(|one| part.iter().map(move |other| combined(one, other))).collect()
}

/// Names of the visible fields of a payload. Used by generated code.
pub fn visible(alternatives: &[Alternative]) -> Vec<&'static str> {
    let fields = alternatives.iter().flat_map(|alternative| &alternative.fields);
    fields.filter(|field| field.is_visible).map(|field| field.name).collect()
}

/// Deserializes a payload. Used by generated code.
pub fn deserialize_payload<'de, P: Payload, D: Deserializer<'de>>(deserializer: D) -> Result<P, D::Error> {
    let json: Json = serde::Deserialize::deserialize(deserializer)?;
    Fields::of(&json, "payload").and_then(|fields| P::read(&fields)).map_err(D::Error::custom)
}

/// Description of an event type as a value.
#[derive(Debug, Clone, PartialEq)]
pub struct EventDescription {
    /// See [`EventType::NAME`].
    pub name: &'static str,
    /// See [`EventType::AGGREGATE`].
    pub aggregate: &'static str,
    /// See [`Keyed::KEY_FIELD`].
    pub key_field: &'static str,
    /// See [`EventType::ROUTING_KEY`].
    pub routing_key: &'static str,
    /// See [`EventType::IS_ORDERED`].
    pub is_ordered: bool,
    /// See [`EventType::SUMMARY`].
    pub summary: &'static str,
    /// See [`Payload::alternatives`].
    pub alternatives: Vec<Alternative>,
}

impl EventDescription {
    /// Describes an event type.
    pub fn of<E: EventType + Payload>() -> EventDescription {
        EventDescription {
            name: E::NAME,
            aggregate: E::AGGREGATE,
            key_field: E::KEY_FIELD,
            routing_key: E::ROUTING_KEY,
            is_ordered: E::IS_ORDERED,
            summary: E::SUMMARY,
            alternatives: E::alternatives(),
        }
    }

    /// See [`EventType::visible_fields`].
    pub fn visible_fields(&self) -> Vec<&'static str> {
        visible(&self.alternatives)
    }

    /// JSON Schema (draft 7) of the payload.
    pub fn schema(&self) -> Value {
        match self.alternatives.as_slice() {
            [only] => only.schema(),
            several => json!({ "oneOf": several.iter().map(Alternative::schema).collect::<Vec<_>>() }),
        }
    }
}

/// JSON Schema of an integer id. Used by [`integer_id`](crate::integer_id).
pub fn id_schema() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_ID })
}

impl<T, F: Field<T>> Field<Option<T>> for Option<F> {
    const IS_REQUIRED: bool = false;

    fn read(fields: &Fields<'_>, name: &str) -> Result<Option<T>, EnvelopeError> {
        fields.optional(name, F::read)
    }

    fn schema() -> Value {
        F::schema()
    }
}

impl Field for String {
    fn read(fields: &Fields<'_>, name: &str) -> Result<String, EnvelopeError> {
        fields.text(name).map(str::to_owned)
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

impl Field for Uuid {
    fn read(fields: &Fields<'_>, name: &str) -> Result<Uuid, EnvelopeError> {
        fields.named(name, "a UUID")
    }

    fn schema() -> Value {
        json!({ "type": "string", "format": "uuid" })
    }
}

impl Field for i64 {
    fn read(fields: &Fields<'_>, name: &str) -> Result<i64, EnvelopeError> {
        fields.integer(name)
    }

    fn schema() -> Value {
        json!({ "type": "integer", "format": "int64" })
    }
}

impl Field for i32 {
    fn read(fields: &Fields<'_>, name: &str) -> Result<i32, EnvelopeError> {
        let number = fields.integer(name)?;
        number.try_into().map_err(|_| fields.wrong_type(name, "an integer of 32 bits"))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "format": "int32" })
    }
}

impl Field for u32 {
    fn read(fields: &Fields<'_>, name: &str) -> Result<u32, EnvelopeError> {
        let number = fields.integer(name)?;
        number.try_into().map_err(|_| fields.wrong_type(name, "an unsigned integer of 32 bits"))
    }

    fn schema() -> Value {
        json!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": u32::MAX })
    }
}

impl Field for DateTime<Utc> {
    fn read(fields: &Fields<'_>, name: &str) -> Result<DateTime<Utc>, EnvelopeError> {
        fields.time(name)
    }

    fn schema() -> Value {
        json!({ "type": "string", "format": "date-time" })
    }
}

impl Field for NaiveDate {
    fn read(fields: &Fields<'_>, name: &str) -> Result<NaiveDate, EnvelopeError> {
        fields.day(name)
    }

    fn schema() -> Value {
        json!({ "type": "string", "format": "date" })
    }
}
