//! JSON Schemas of the values in requests and responses: one type for each reader in `values.rs` and each type in the views.
//!
//! The types are uninhabited; they are only named, in `bodies!`, `queries!` and `views!`.

use std::borrow::Cow;

use handover_events::MAX_ID;
use handover_outbox::operations::{Reason, RedriveRate};
use handover_outbox::{ports, webhooks};
use serde_json::json;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::response::PageView;
use crate::value_limits::{
    DEFAULT_LIMIT, MAX_EVENT_ID_CHARS, MAX_KEY_CHARS, MAX_LIMIT, MAX_METRIC_CHARS, MAX_QUEUE_CHARS,
    MAX_ROUTING_KEY_CHARS, MAX_TYPE_CHARS, MAX_URL_CHARS,
};

/// Declares kinds of values with their schemas: `kinds! { visibility, /// Description. Name = schema; .. }`.
#[macro_export]
macro_rules! kinds {
    ($visibility:vis, $($(#[doc = $doc:literal])+ $name:ident = $schema:expr;)+) => {$(
        $(#[doc = $doc])+
        $visibility enum $name {}

        impl ::utoipa::PartialSchema for $name {
            fn schema() -> ::utoipa::openapi::RefOr<::utoipa::openapi::Schema> {
                $schema.description(Some(concat!($($doc),+).trim())).into()
            }
        }

        impl ::utoipa::ToSchema for $name {
            fn name() -> ::std::borrow::Cow<'static, str> {
                ::std::borrow::Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

kinds! {
    pub,
    /// An id: an integer that every JSON parser represents exactly.
    Id = integer(1, MAX_ID).examples([json!(900_001)]);
    /// Number of events per second.
    PerSecond = integer(1, i64::from(RedriveRate::MAX)).examples([json!(200)]);
    /// A time, RFC 3339; responses use UTC with `Z`.
    Time = of(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples([json!("2026-01-31T08:00:00Z")]);
    /// A time for which events stay in the outbox, at least `1h`: a number of seconds, minutes, hours or days.
    RetentionTime = of(Type::String).pattern(Some("^[1-9][0-9]{0,8}[smhd]$")).examples([json!("7d")]);
    /// The id of an event; this service generates UUIDs of version 7.
    EventId = visible_ascii(MAX_EVENT_ID_CHARS).examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// An operator's reason for an action: no control characters, not blank.
    OperatorReason = text(Reason::MAX_CHARS).examples([json!("the consumer is fixed")]);
    /// An event type; manually inserted rows may contain unknown types.
    EventType = visible_ascii(MAX_TYPE_CHARS).examples([json!("ACCOUNT_OPENED")]);
    /// An aggregate type; manually inserted rows may contain unknown types.
    AggregateType = visible_ascii(MAX_TYPE_CHARS).examples([json!("Account")]);
    /// Name of a queue or a consumer.
    QueueName = visible_ascii(MAX_QUEUE_CHARS).examples([json!("inventory.update.queue")]);
    /// Name of a metric, as it is exported.
    MetricName = visible_ascii(MAX_METRIC_CHARS).examples([json!("handover_queue_messages_ready")]);
    /// The key of a dead letter: its event id, or the SHA-256 of the message body if the message is not an event.
    DeadLetterKey = visible_ascii(MAX_KEY_CHARS)
        .examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// `nextCursor` of the previous page.
    Cursor = of(Type::String).pattern(Some("^[1-9][0-9]{0,15}$")).examples([json!("900001")]);
    /// Page size.
    Limit = integer(1, i64::from(MAX_LIMIT)).default(Some(json!(DEFAULT_LIMIT)));
    /// The id of an aggregate; manually inserted rows may contain any integer.
    AggregateId = of(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .examples([json!(900_001)]);
    /// The text key of an aggregate, such as a UUID.
    AggregateKey = of(Type::String).min_length(Some(1)).max_length(Some(255))
        .examples([json!("7f0c3a52-6b1e-4d0a-9c57-2f9d0f6f3f10")]);
    /// The id of an aggregate: an integer, or its text key as a string.
    AnyAggregateId = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Integer, Type::String]))
        .examples([json!(900_001)]);
    /// JSON; a string if the stored text is not JSON.
    Json = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    /// Outbox status of an event.
    OutboxStatus = named(handover_events::OutboxStatus::ALL, handover_events::OutboxStatus::as_str);
    /// Outbox status of an event that can be redriven.
    RedrivenStatus = one_of([handover_events::OutboxStatus::Failed, handover_events::OutboxStatus::Sent].map(handover_events::OutboxStatus::as_str));
    /// Status of an event at a consumer.
    ConsumeStatus = named(handover_events::ConsumeStatus::ALL, handover_events::ConsumeStatus::as_str);
    /// Status of a dead letter.
    DeadLetterStatus = named(ports::DeadLetterStatus::ALL, ports::DeadLetterStatus::as_str);
    /// The id of a webhook endpoint.
    WebhookId = of(Type::String)
        .pattern(Some("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))
        .examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// The URL of a webhook endpoint: `https`; `http` only in networks that the service allows.
    WebhookUrl = text(MAX_URL_CHARS).examples([json!("https://erp.example/hooks")]);
    /// Event types of a webhook endpoint: the name of one, all with a prefix (`order.*`), or all (`*`).
    WebhookPattern = visible_ascii(MAX_ROUTING_KEY_CHARS).examples([json!("account.*")]);
    /// An event type by its name for webhook receivers.
    WebhookType = visible_ascii(MAX_ROUTING_KEY_CHARS).examples([json!("account.opened")]);
    /// An operator's description of a webhook endpoint.
    WebhookDescription = text(webhooks::MAX_DESCRIPTION_CHARS).examples([json!("accounting")]);
    /// Greatest average number of attempts per second.
    AttemptsPerSecond = integer(1, i64::from(webhooks::MAX_PER_SECOND)).examples([json!(10)]);
    /// Maximum number of concurrent attempts.
    MaxInFlight = integer(1, i64::from(webhooks::MAX_IN_FLIGHT)).examples([json!(webhooks::DEFAULT_IN_FLIGHT)]);
    /// Static request headers: values by name. The values are stored encrypted and never shown.
    WebhookHeaders = of(Type::Object)
        .additional_properties(Some(AdditionalProperties::from(of(Type::String))))
        .max_properties(Some(webhooks::MAX_HEADERS))
        .examples([json!({ "x-api-key": "secret" })]);
    /// Number of hours for which a replaced secret stays valid.
    OverlapHours = integer(0, i64::from(webhooks::MAX_OVERLAP_HOURS)).examples([json!(24)]);
    /// Status of a webhook endpoint.
    WebhookStatus = named(ports::EndpointStatus::ALL, ports::EndpointStatus::as_str);
    /// State of a webhook delivery.
    DeliveryState = named(ports::DeliveryState::ALL, ports::DeliveryState::as_str);
    /// Outcome of an attempt at a webhook delivery.
    AttemptOutcome = named(ports::AttemptOutcome::ALL, ports::AttemptOutcome::as_str);
    /// An HTTP status.
    HttpStatus = integer(100, 599).examples([json!(503)]);
    /// A count for each name.
    Counts = of(Type::Object).additional_properties(Some(AdditionalProperties::from(
        of(Type::Integer).minimum(Some(0)),
    )));
}

/// The kind of value of each type of the domain, for [`views!`](crate::views!).
pub mod of_types {
    pub use crate::openapi::kinds::{ConsumeStatus, EventId, Json, OutboxStatus};

    /// An id of a tenant.
    pub type TenantId = crate::openapi::kinds::Id;
}

/// The schema of a page references the schema of its items.
impl<T: ToSchema> PartialSchema for PageView<T> {
    fn schema() -> RefOr<Schema> {
        let cursor = SchemaType::from_iter([Type::String, Type::Null]);
        ObjectBuilder::new()
            .schema_type(Type::Object)
            .property("items", ArrayBuilder::new().items(Ref::from_schema_name(T::name())))
            .property("nextCursor", ObjectBuilder::new().schema_type(cursor))
            .required("items")
            .required("nextCursor")
            .into()
    }
}

impl<T: ToSchema> ToSchema for PageView<T> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("{}Page", T::name()))
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

/// A schema of this type.
pub fn of(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(kind))
}

/// An integer in this range.
pub fn integer(least: i64, greatest: i64) -> ObjectBuilder {
    of(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(least))
        .maximum(Some(greatest))
}

/// Text without control characters that is not blank.
pub fn text(max: usize) -> ObjectBuilder {
    // No control characters, and at least one character that is not whitespace.
    const PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$";
    of(Type::String).min_length(Some(1)).max_length(Some(max)).pattern(Some(PATTERN))
}

/// Visible ASCII characters.
pub fn visible_ascii(max: usize) -> ObjectBuilder {
    of(Type::String).min_length(Some(1)).max_length(Some(max)).pattern(Some("^[!-~]*$"))
}

/// One of these names.
pub fn one_of<const N: usize>(names: [&'static str; N]) -> ObjectBuilder {
    of(Type::String).enum_values(Some(names))
}

/// The name of one of these values.
pub fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> ObjectBuilder {
    of(Type::String).enum_values(Some(all.iter().map(|value| name(*value)).collect::<Vec<_>>()))
}
