//! The event types that endpoints can ask for, and the bodies that they get.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::SecondsFormat;
use handover_events::{AggregateId, AggregateRef, Envelope, EventDescription, EventType, Json, TenantId};

use super::events::{event_descriptions, is_about_webhooks};
use crate::ports::{BodyForm, WebhookEndpoint};
use crate::privacy::masked_json;
use crate::registry::EventRegistry;
use crate::similar::most_similar;

/// Size from which a body is logged: receivers may refuse it.
pub const LARGE_BODY_BYTES: usize = 20 * 1024;
/// Size above which a body is not sent.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// Fields of `data` in every body.
pub const COMMON_FIELDS: [&str; 4] = ["tenantId", "eventId", "aggregateType", "aggregateId"];

/// Name of a payload field in `data`. A field with the name of a common one begins with `payload` there.
pub fn body_field(name: &str) -> Cow<'_, str> {
    match name.split_at_checked(1) {
        Some((first, rest)) if COMMON_FIELDS.contains(&name) => {
            format!("payload{}{rest}", first.to_ascii_uppercase()).into()
        }
        Some(_) | None => name.into(),
    }
}

/// An event type that endpoints can ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedType {
    /// Name in outbox rows.
    pub event_type: String,
    /// Name for receivers: the routing key.
    pub name: String,
    /// Type of the aggregate.
    pub aggregate: String,
    /// One sentence about the event.
    pub summary: String,
    /// Payload fields of the thin body.
    pub thin: Vec<String>,
    /// JSON Schema of the payload.
    pub schema: serde_json::Value,
    /// Example of a payload.
    pub example: Json,
}

impl OfferedType {
    /// Offers a described event type. The thin body has the fields without personal data; the example is made from the
    /// schema.
    pub fn described(description: &EventDescription) -> OfferedType {
        let schema = description.schema();
        OfferedType {
            event_type: description.name.to_owned(),
            name: description.routing_key.to_owned(),
            aggregate: description.aggregate.to_owned(),
            summary: description.summary.to_owned(),
            thin: description.visible_fields().into_iter().map(str::to_owned).collect(),
            example: example(&schema, description.name),
            schema,
        }
    }

    /// Offers an event type whose schema is not described: receivers learn only that the payload is an object.
    pub fn of<E: EventType>() -> OfferedType {
        OfferedType {
            event_type: E::NAME.to_owned(),
            name: E::ROUTING_KEY.to_owned(),
            aggregate: E::AGGREGATE.to_owned(),
            summary: E::SUMMARY.to_owned(),
            thin: E::visible_fields().into_iter().map(str::to_owned).collect(),
            schema: serde_json::json!({ "type": "object" }),
            example: Json::Object(Vec::new()),
        }
    }

    /// Reduces the thin body to these payload fields.
    #[must_use]
    pub fn with_thin(self, fields: &[&str]) -> OfferedType {
        OfferedType { thin: fields.iter().map(|field| (*field).to_owned()).collect(), ..self }
    }

    /// Replaces the example.
    #[must_use]
    pub fn with_example(self, example: Json) -> OfferedType {
        OfferedType { example, ..self }
    }
}

/// A value that the schema permits.
fn example(schema: &serde_json::Value, name: &str) -> Json {
    use serde_json::Value;
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values.first().and_then(Value::as_str).unwrap_or_default().into();
    }
    for alternatives in ["oneOf", "anyOf"] {
        if let Some(Value::Array(schemas)) = schema.get(alternatives) {
            return schemas.first().map_or(Json::Null, |first| example(first, name));
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match (kind, schema.get("format").and_then(Value::as_str)) {
        (Some("object"), _) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let fields = properties.into_iter().flatten();
            Json::object(fields.map(|(name, schema)| (name.clone(), example(schema, name))).collect())
        }
        (Some("array"), _) => {
            Json::Array(schema.get("items").map(|items| example(items, name)).into_iter().collect())
        }
        (Some("integer"), _) => 1_i64.into(),
        (Some("number"), _) => Json::parse("1.00").unwrap_or(Json::Null),
        (Some("boolean"), _) => true.into(),
        (Some("string"), Some("date-time")) => "2026-01-01T00:00:00.000000Z".into(),
        (Some("string"), Some("date")) => "2026-01-01".into(),
        (Some("string"), Some("uuid")) => "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        (Some("string"), _) => name.into(),
        _ => Json::Null,
    }
}

/// A pattern matches no offered event type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {pattern:?} matches no event type{}; patterns are the name of a type, `order.*`-like prefixes, or `*`",
    nearest.as_ref().map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default())]
pub struct UnknownType {
    /// The pattern.
    pub pattern: String,
    /// Offered type with the most similar name.
    pub nearest: Option<String>,
}

/// The event types of an application that endpoints can ask for.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// By the name for receivers.
    types: BTreeMap<String, OfferedType>,
}

impl Offer {
    /// Offers the event types of an application, and those about webhooks themselves.
    pub fn of_events(events: impl IntoIterator<Item = EventDescription>) -> Offer {
        let events = events.into_iter().chain(event_descriptions());
        events.map(|event| OfferedType::described(&event)).fold(Offer::default(), Offer::with)
    }

    /// Offers a further event type.
    #[must_use]
    pub fn with(mut self, offered: OfferedType) -> Offer {
        self.types.insert(offered.name.clone(), offered);
        self
    }

    /// The offered event types by name.
    pub fn types(&self) -> impl Iterator<Item = &OfferedType> {
        self.types.values()
    }

    /// The offered event type with this name for receivers.
    pub fn named(&self, name: &str) -> Option<&OfferedType> {
        self.types.get(name)
    }

    /// The offered event type of rows with this event type.
    pub fn of_row(&self, event_type: &str) -> Option<&OfferedType> {
        self.types.values().find(|offered| offered.event_type == event_type)
    }

    /// Checks that a pattern matches at least one event type.
    pub fn check_pattern(&self, pattern: &str) -> Result<(), UnknownType> {
        if self.types.keys().any(|name| matches(pattern, name)) {
            return Ok(());
        }
        let nearest = most_similar(pattern, self.types.keys().map(String::as_str)).map(str::to_owned);
        Err(UnknownType { pattern: pattern.to_owned(), nearest })
    }

    /// Whether the endpoint gets an event of this type about this aggregate. An event about an endpoint is not sent to this
    /// endpoint.
    pub(super) fn is_receiver(
        &self,
        endpoint: &WebhookEndpoint,
        offered: &OfferedType,
        aggregate: &AggregateRef,
    ) -> bool {
        let is_about_itself =
            is_about_webhooks(&offered.event_type) && aggregate.id == AggregateId::from(endpoint.id.0);
        endpoint.tenant == aggregate.tenant
            && endpoint.event_types.iter().any(|pattern| matches(pattern, &offered.name))
            && !is_about_itself
    }
}

/// Whether a pattern matches the name of an event type.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => true,
        Some(prefix) => prefix.ends_with('.') && name.len() > prefix.len() && name.starts_with(prefix),
        None => pattern == name,
    }
}

impl OfferedType {
    /// Body for an event of a tenant. The error says why the event has none.
    pub(super) fn body(
        &self,
        registry: &EventRegistry,
        tenant: TenantId,
        event: &Envelope,
        form: BodyForm,
    ) -> Result<String, String> {
        let payload = event.payload.to_string();
        let payload = registry.with_closed_fields(Some(&event.event_type), &payload);
        let payload = match form {
            BodyForm::Unmasked => payload.into_owned(),
            // The reason is a sentence, which would be masked like any text that can contain personal data.
            BodyForm::Thin | BodyForm::Full if is_about_webhooks(&self.event_type) => payload.into_owned(),
            BodyForm::Thin | BodyForm::Full => masked_json(registry, &payload),
        };
        let Ok(Json::Object(payload)) = Json::parse(&payload) else {
            return Err("the payload is not a JSON object".to_owned());
        };
        let mut data: Vec<(String, Json)> = vec![
            ("tenantId".to_owned(), tenant.get().into()),
            ("eventId".to_owned(), event.event_id.as_str().into()),
            ("aggregateType".to_owned(), event.aggregate_type.as_str().into()),
            ("aggregateId".to_owned(), (&event.aggregate_id).into()),
        ];
        for (name, value) in payload {
            let is_included = match form {
                BodyForm::Thin => self.thin.contains(&name),
                BodyForm::Full | BodyForm::Unmasked => true,
            };
            let name = body_field(&name);
            if is_included && data.iter().all(|(present, _)| *present != name) {
                data.push((name.into_owned(), value));
            }
        }
        let occurred_at = event.occurred_at.to_rfc3339_opts(SecondsFormat::Micros, true);
        let body = Json::object(vec![
            ("type".to_owned(), self.name.as_str().into()),
            ("timestamp".to_owned(), occurred_at.as_str().into()),
            ("data".to_owned(), Json::object(data)),
        ]);
        Ok(body.to_string())
    }
}
