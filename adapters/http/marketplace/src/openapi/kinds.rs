//! JSON Schemas of the values in requests and responses: one type for each reader in `values.rs` and each domain type in the
//! views.
//!
//! The types are uninhabited; they are only named in `#[schema(value_type = kinds::Id)]`.

use std::borrow::Cow;

use handover_events::MAX_ID;
use handover_outbox::operations::{Reason, RedriveRate};
use handover_outbox::ports;
use marketplace::use_cases::operations::{FindingKind, Repair, TimelineKind};
use marketplace_domain::{self as domain, Product, Refund, Shipment};
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::response::PageView;
use crate::value_limits::{
    DEFAULT_LIMIT, MAX_EVENT_ID_CHARS, MAX_GRANT, MAX_KEY_CHARS, MAX_LIMIT, MAX_QUEUE_CHARS,
    MAX_TRANSACTION_CHARS, MAX_TYPE_CHARS,
};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident = $schema:expr;)+) => {$(
        $(#[doc = $doc])+
        pub(crate) enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema.description(Some(concat!($($doc),+).trim())).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

kinds! {
    /// An id: an integer that every JSON parser represents exactly.
    Id = integer(1, MAX_ID).examples([json!(900_001)]);
    /// An amount of money with at most two decimals; responses always have two.
    Amount = decimal(0).examples([amount("88.50")]);
    /// A price, or another amount with the same limits; at most two decimals.
    Price = decimal(*Product::PRICE_MINOR.start())
        .maximum(Some(schema_limit(*Product::PRICE_MINOR.end())))
        .examples([amount("88.50")]);
    /// A minimum spend with at most two decimals; 0: no minimum.
    MinSpend = decimal(0).maximum(Some(schema_limit(*Product::PRICE_MINOR.end()))).examples([amount("100.00")]);
    /// An amount of an asset: money with two decimals, points as an integer. Debit entries are negative.
    AssetAmount = of(Type::Number).examples([amount("20.00"), json!(-300)]);
    /// A number of points.
    Points = integer(0, MAX_ID).examples([json!(300)]);
    /// A number of points to grant.
    GrantedPoints = integer(1, MAX_GRANT).examples([json!(300)]);
    /// Number of events per second.
    PerSecond = integer(1, i64::from(RedriveRate::MAX)).examples([json!(200)]);
    /// A time, RFC 3339; responses use UTC with `Z`.
    Time = of(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples([json!("2026-01-31T08:00:00Z")]);
    /// The id of an event; this service generates UUIDs of version 7.
    EventId = visible_ascii(MAX_EVENT_ID_CHARS).examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// Human-readable order number.
    OrderNo = of(Type::String).examples([json!("202601310800000000900001")]);
    /// The title of a product: no control characters, not blank.
    Title = text(domain::Title::MAX_CHARS).examples([json!("Desk lamp")]);
    /// A carrier or a tracking number: no control characters, not blank.
    ShipmentPart = text(Shipment::MAX_CHARS).examples([json!("SF1234567890")]);
    /// A payment method.
    PaymentMethod = one_of(domain::PaymentMethod::ACCEPTED).examples([json!("online")]);
    /// The gateway's id of a transaction: visible ASCII.
    TransactionId = visible_ascii(MAX_TRANSACTION_CHARS).examples([json!("txn-1")]);
    /// The name of a payment or of an attempt at a refund towards the gateway: a UUID. Unlike an id, it does not repeat after a
    /// restored backup.
    Reference = of(Type::String)
        .pattern(Some("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))
        .examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// Reason for a refund: no control characters, not blank.
    RefundReason = text(Refund::MAX_REASON_CHARS).examples([json!("the item is damaged")]);
    /// An operator's reason for an action: no control characters, not blank.
    OperatorReason = text(Reason::MAX_CHARS).examples([json!("the consumer is fixed")]);
    /// An event type; manually inserted rows may contain unknown types.
    EventType = visible_ascii(MAX_TYPE_CHARS).examples([json!("ORDER_CREATED")]);
    /// An aggregate type; manually inserted rows may contain unknown types.
    AggregateType = visible_ascii(MAX_TYPE_CHARS).examples([json!("Order")]);
    /// Name of a queue or a consumer.
    QueueName = visible_ascii(MAX_QUEUE_CHARS).examples([json!("inventory.update.queue")]);
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
    /// JSON; a string if the stored text is not JSON.
    Json = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    /// Always `false`: a GET request does not repair.
    NoRepair = of(Type::Boolean).enum_values(Some([false]));
    /// The user's side of an order.
    Side = one_of(["buyer", "seller"]);
    /// Outcome reported by the payment gateway.
    GatewayResult = one_of(["SUCCESS", "FAILED"]);
    /// Currency code (ISO 4217).
    Currency = one_of([domain::Currency::CNY.as_str()]);
    /// Status of a product.
    ProductStatus = named(domain::ProductStatus::ALL, domain::ProductStatus::as_str);
    /// Status of an order.
    OrderStatus = named(domain::OrderStatus::ALL, domain::OrderStatus::as_str);
    /// Reason for the cancellation of an order.
    CancelReason = named(domain::CancelReason::ALL, domain::CancelReason::as_str);
    /// Status of a payment.
    PaymentStatus = named(domain::PaymentStatus::ALL, domain::PaymentStatus::as_str);
    /// Status of a refund.
    RefundStatus = named(domain::RefundStatus::ALL, domain::RefundStatus::as_str);
    /// Cause of a refund.
    RefundCause = named(domain::RefundCause::ALL, domain::RefundCause::as_str);
    /// Subject of a gateway report.
    ReportKind = named(domain::ReportKind::ALL, domain::ReportKind::as_str);
    /// What was done because of a gateway report.
    ReportOutcome = named(domain::ReportOutcome::ALL, domain::ReportOutcome::as_str);
    /// State of a gateway report; an operator must decide about an `OPEN` one.
    ReportState = named(domain::ReportState::ALL, domain::ReportState::as_str);
    /// Outbox status of an event.
    OutboxStatus = named(handover_events::OutboxStatus::ALL, handover_events::OutboxStatus::as_str);
    /// Outbox status of an event that can be redriven.
    RedrivenStatus = one_of([handover_events::OutboxStatus::Failed, handover_events::OutboxStatus::Sent].map(handover_events::OutboxStatus::as_str));
    /// Status of an event at a consumer.
    ConsumeStatus = named(handover_events::ConsumeStatus::ALL, handover_events::ConsumeStatus::as_str);
    /// Status of a dead letter.
    DeadLetterStatus = named(ports::DeadLetterStatus::ALL, ports::DeadLetterStatus::as_str);
    /// Status of an asset hold.
    HoldStatus = named(domain::HoldStatus::ALL, domain::HoldStatus::as_str);
    /// Status of a coupon.
    CouponStatus = named(domain::CouponStatus::ALL, domain::CouponStatus::as_str);
    /// An account of the ledger.
    Account = named(domain::Account::ALL, domain::Account::as_str);
    /// A type of asset.
    Asset = named(domain::Asset::ALL, domain::Asset::as_str);
    /// Kind of an asset operation.
    Operation = named(domain::OperationKind::ALL, domain::OperationKind::as_str);
    /// Kind of a reconciliation finding.
    FindingName = named(&FindingKind::ALL, FindingKind::as_str);
    /// Repair of a finding.
    RepairName = named(Repair::ALL, Repair::as_str);
    /// Kind of a timeline entry.
    TimelineName = named(TimelineKind::ALL, TimelineKind::as_str);
    /// A count for each name.
    Counts = of(Type::Object).additional_properties(Some(AdditionalProperties::from(
        of(Type::Integer).minimum(Some(0)),
    )));
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

/// An example amount with its exact decimals.
fn amount(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Converts minor units to a schema limit. f64 is exact enough, because limits are only displayed and compared.
#[allow(clippy::cast_precision_loss, reason = "prices have at most nine digits")]
fn schema_limit(minor: i64) -> f64 {
    minor as f64 / 100.0
}

fn of(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(kind))
}

fn integer(least: i64, greatest: i64) -> ObjectBuilder {
    of(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(least))
        .maximum(Some(greatest))
}

/// A number of at least `least` minor units. The limit of two decimals is only described in text: most validators evaluate
/// `multipleOf: 0.01` in binary floating point and reject 11,426 of the 99,999 amounts below 1,000.00.
fn decimal(least: i64) -> ObjectBuilder {
    of(Type::Number).minimum(Some(schema_limit(least)))
}

fn text(max: usize) -> ObjectBuilder {
    // No control characters, and at least one character that is not whitespace.
    const PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$";
    of(Type::String).min_length(Some(1)).max_length(Some(max)).pattern(Some(PATTERN))
}

fn visible_ascii(max: usize) -> ObjectBuilder {
    of(Type::String).min_length(Some(1)).max_length(Some(max)).pattern(Some("^[!-~]*$"))
}

fn one_of<const N: usize>(names: [&'static str; N]) -> ObjectBuilder {
    of(Type::String).enum_values(Some(names))
}

fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> ObjectBuilder {
    of(Type::String).enum_values(Some(all.iter().map(|value| name(*value)).collect::<Vec<_>>()))
}
