//! The requests that webhook endpoints get (`webhooks` of OpenAPI 3.1): one per offered event type.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use handover_outbox::webhooks::{COMMON_FIELDS, Offer, OfferedType, body_field};
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Paths};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{
    ContentBuilder, ObjectBuilder, OpenApi, PathItem, RefOr, Required, ResponseBuilder, ResponsesBuilder,
    Schema,
};

use super::parameters::header;

/// Describes the requests that endpoints get.
pub fn add_webhooks(document: &mut OpenApi, offer: &Offer) {
    let mut webhooks = Paths::new();
    for offered in offer.types() {
        let request = PathItem::new(HttpMethod::Post, operation(offered));
        webhooks.paths.insert(offered.name.clone(), request);
    }
    document.webhooks = Some(webhooks);
}

fn operation(offered: &OfferedType) -> Operation {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let schema: Option<RefOr<Schema>> = serde_json::from_value(body_schema(offered)).ok();
    let content = ContentBuilder::new().schema(schema).example(Some(body_example(offered))).build();
    let body = RequestBodyBuilder::new().content("application/json", content).required(Some(Required::True));
    let signature = "Signatures of `webhook-id`, `webhook-timestamp` and the body, joined by dots: `v1,` with HMAC-SHA256; for \
                     asymmetric endpoints also `v1a,` with Ed25519; one of each for every valid secret";
    let response = |what: &str| ResponseBuilder::new().description(what).build();
    let responses = ResponsesBuilder::new()
        .response("2XX", response("The event is delivered"))
        .response("410", response("The endpoint is disabled"))
        .response("default", response("The same event is sent again later"));
    OperationBuilder::new()
        .tag("webhooks")
        .summary(Some(offered.summary.clone()))
        .parameter(header("webhook-id", "Id of the event, the same in every attempt", Required::True, text()))
        .parameter(header(
            "webhook-timestamp",
            "Time of the attempt, in seconds since 1970",
            Required::True,
            text().pattern(Some("^[0-9]+$")),
        ))
        .parameter(header("webhook-signature", signature, Required::True, text()))
        .request_body(Some(body.build()))
        .responses(responses.build())
        .securities(Some([SecurityRequirement::default()]))
        .build()
}

/// JSON Schema of the bodies for an event type. Fields that only the whole payload has are optional.
pub(crate) fn body_schema(offered: &OfferedType) -> Value {
    let mut properties = json!({
        "tenantId": { "type": "integer" },
        "eventId": { "type": "string" },
        "aggregateType": { "type": "string", "enum": [offered.aggregate] },
        "aggregateId": { "type": ["integer", "string"] },
    });
    let alternatives = alternatives(&offered.schema);
    let mut required: Vec<Cow<'_, str>> = COMMON_FIELDS.map(Cow::Borrowed).to_vec();
    for (name, schema) in alternatives.iter().flat_map(|schema| fields(schema)) {
        let sent = body_field(name);
        properties[sent.as_ref()] = with_enum(schema);
        let is_always_sent = offered.thin.contains(name) && alternatives.iter().all(|it| requires(it, name));
        if is_always_sent && !required.contains(&sent) {
            required.push(sent);
        }
    }
    json!({
        "type": "object",
        "required": ["type", "timestamp", "data"],
        "properties": {
            "type": { "type": "string", "enum": [offered.name] },
            "timestamp": { "type": "string", "format": "date-time", "description": "Time of the event" },
            "data": { "type": "object", "required": required, "properties": properties },
        },
    })
}

/// Replaces `const` by an `enum` of one value: the types of utoipa have no `const`.
fn with_enum(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(constant) = schema.as_object_mut().and_then(|schema| schema.remove("const")) {
        schema["enum"] = json!([constant]);
    }
    schema
}

/// An example of a thin body.
pub(crate) fn body_example(offered: &OfferedType) -> Value {
    let payload = serde_json::from_str(&offered.example.to_string()).unwrap_or_default();
    let mut data = json!({
        "tenantId": 1,
        "eventId": "0192f0c1-0000-7000-8000-000000000001",
        "aggregateType": offered.aggregate,
        "aggregateId": 1,
    });
    let thin: BTreeSet<&String> = offered.thin.iter().collect();
    if let (Value::Object(payload), Value::Object(data)) = (payload, &mut data) {
        let sent = payload.into_iter().filter(|(name, _)| thin.contains(name));
        let sent: BTreeMap<String, Value> =
            sent.map(|(name, value)| (body_field(&name).into_owned(), value)).collect();
        data.extend(sent);
    }
    json!({ "type": offered.name, "timestamp": "2026-01-31T08:00:00.000000Z", "data": data })
}

/// The schemas of the objects that a payload can be.
fn alternatives(schema: &Value) -> Vec<&Value> {
    match schema.get("oneOf").and_then(Value::as_array) {
        Some(schemas) => schemas.iter().collect(),
        None => vec![schema],
    }
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.into_iter().flatten().any(|required| required == name)
}
