//! What a value in a request or an answer can be, as JSON Schema says it: one kind for each reader in `fields.rs` and each
//! type of the domain that the views show.
//!
//! None of these types has a value: `#[schema(value_type = kinds::Id)]` names one.

use std::borrow::Cow;

use handover_events::MAX_ID;
use handover_outbox::operations::{Pace, Reason};
use handover_outbox::ports::DeadLetterStatus;
use marketplace::use_cases::operations::{FindingKind, Mended, TimelineKind};
use marketplace_domain::{self as domain, Product, Refund, Shipment};
use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::envelope::Page;

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
    /// An id: an integer that every JSON reader keeps exact.
    Id = integer(1, MAX_ID).examples([json!(900_001)]);
    /// An amount of money, with at most two decimals; answers always have two.
    Amount = decimal(0).examples([amount("88.50")]);
    /// A price, or another amount of that size, with at most two decimals.
    Price = decimal(*Product::PRICE_MINOR.start())
        .maximum(Some(shown(*Product::PRICE_MINOR.end())))
        .examples([amount("88.50")]);
    /// A minimum spend, with at most two decimals; 0 is none.
    MinSpend = decimal(0).maximum(Some(shown(*Product::PRICE_MINOR.end()))).examples([amount("100.00")]);
    /// So much of an asset: money with two decimals, points whole. An entry that takes something away is negative.
    AssetAmount = of(Type::Number).examples([amount("20.00"), json!(-300)]);
    /// A number of points.
    Points = integer(0, MAX_ID).examples([json!(300)]);
    /// A number of points to give.
    GrantedPoints = integer(1, crate::routes::MAX_GRANT).examples([json!(300)]);
    /// How many events are sent in a second.
    PerSecond = integer(1, i64::from(Pace::MAX)).examples([json!(200)]);
    /// A moment, RFC 3339; answers are in UTC with `Z`.
    Time = of(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples([json!("2026-01-31T08:00:00Z")]);
    /// The id of an event; those made here are UUIDs of version 7.
    EventId = visible_ascii(64).examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// The number of an order that people read.
    OrderNo = of(Type::String).examples([json!("202601310800000000900001")]);
    /// The title of a product: no control characters, not blank.
    Title = text(domain::Title::MAX_CHARS).examples([json!("Desk lamp")]);
    /// A carrier or a tracking number: no control characters, not blank.
    ShipmentPart = text(Shipment::MAX_CHARS).examples([json!("SF1234567890")]);
    /// How it is paid: no control characters, not blank.
    PaymentMethod = text(crate::routes::MAX_METHOD_CHARS).examples([json!("online")]);
    /// The gateway's id of a transaction: visible ASCII.
    TransactionId = visible_ascii(crate::routes::MAX_TRANSACTION_CHARS).examples([json!("txn-1")]);
    /// Why money goes back: no control characters, not blank.
    RefundReason = text(Refund::MAX_REASON_CHARS).examples([json!("it came broken")]);
    /// Why an operator does something: no control characters, not blank.
    OperatorReason = text(Reason::MAX_CHARS).examples([json!("the consumer is mended")]);
    /// An event type: one of ours, or what a row inserted by hand says.
    EventType = visible_ascii(crate::routes::MAX_TYPE_CHARS).examples([json!("ORDER_CREATED")]);
    /// A queue or a consumer.
    QueueName = visible_ascii(crate::routes::MAX_QUEUE_CHARS).examples([json!("inventory.update.queue")]);
    /// The key of a dead letter: the id of its event, or a hash.
    LetterKey = visible_ascii(crate::routes::MAX_KEY_CHARS)
        .examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// `nextCursor` of the page before.
    Cursor = of(Type::String).pattern(Some("^[1-9][0-9]{0,15}$")).examples([json!("900001")]);
    /// How many items a page has.
    Limit = integer(1, i64::from(crate::query::MAX_LIMIT)).default(Some(json!(crate::query::DEFAULT_LIMIT)));
    /// Whole, of either sign: a row inserted by hand may carry any.
    AggregateId = of(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .examples([json!(900_001)]);
    /// JSON, or a text where what was stored is none.
    Json = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    /// A look repairs nothing.
    NoRepair = of(Type::Boolean).enum_values(Some([false]));
    /// The side of an order on which one stands.
    Side = one_of(["buyer", "seller"]);
    /// What the gateway reports.
    GatewayResult = one_of(["SUCCESS", "FAILED"]);
    /// ISO 4217.
    Currency = one_of([domain::Currency::CNY.as_str()]);
    /// Where a product stands.
    ProductStatus = named(domain::ProductStatus::ALL, domain::ProductStatus::as_str);
    /// Where an order stands.
    OrderStatus = named(domain::OrderStatus::ALL, domain::OrderStatus::as_str);
    /// Why an order was cancelled.
    CancelReason = named(domain::CancelReason::ALL, domain::CancelReason::as_str);
    /// Where a payment stands.
    PaymentStatus = named(domain::PaymentStatus::ALL, domain::PaymentStatus::as_str);
    /// Where a refund stands.
    RefundStatus = named(domain::RefundStatus::ALL, domain::RefundStatus::as_str);
    /// Where an event stands on its way to the broker.
    OutboxStatus = named(handover_events::OutboxStatus::ALL, handover_events::OutboxStatus::as_str);
    /// Where an event stands that can be sent once more.
    RedrivenStatus = one_of([handover_events::OutboxStatus::Failed, handover_events::OutboxStatus::Sent].map(handover_events::OutboxStatus::as_str));
    /// Where an event stands at a consumer.
    ConsumeStatus = named(handover_events::ConsumeStatus::ALL, handover_events::ConsumeStatus::as_str);
    /// What was decided about a dead letter.
    LetterStatus = named(DeadLetterStatus::ALL, DeadLetterStatus::as_str);
    /// Where what an order holds of an asset stands.
    HoldStatus = named(domain::HoldStatus::ALL, domain::HoldStatus::as_str);
    /// Where a coupon stands.
    CouponStatus = named(domain::CouponStatus::ALL, domain::CouponStatus::as_str);
    /// An account of the ledger.
    Account = named(domain::Account::ALL, domain::Account::as_str);
    /// What can be given.
    Asset = named(domain::Asset::ALL, domain::Asset::as_str);
    /// What an operation did.
    Operation = named(domain::OperationKind::ALL, domain::OperationKind::as_str);
    /// What is not as it should be.
    FindingName = named(&FindingKind::ALL, FindingKind::as_str);
    /// What was done about it.
    MendedName = named(Mended::ALL, Mended::as_str);
    /// What kind of thing happened.
    TimelineName = named(TimelineKind::ALL, TimelineKind::as_str);
    /// A number for each name.
    Counts = of(Type::Object).additional_properties(Some(AdditionalProperties::from(
        of(Type::Integer).minimum(Some(0)),
    )));
}

/// A page of a list names what it lists, rather than repeating it.
impl<T: ToSchema> PartialSchema for Page<T> {
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

impl<T: ToSchema> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("{}Page", T::name()))
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

/// An example, to the digit.
fn amount(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Minor units as a limit. A limit is for the eye and for checks, not for sums: f64 holds it.
#[allow(clippy::cast_precision_loss, reason = "prices have at most nine digits")]
fn shown(minor: i64) -> f64 {
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

/// No less than so many minor units. That there are at most two decimals is said in words: `multipleOf: 0.01` is judged in binary
/// floating point by most validators, which refuse 11,426 of the 99,999 amounts below 1,000.00.
fn decimal(least: i64) -> ObjectBuilder {
    of(Type::Number).minimum(Some(shown(least)))
}

fn text(max: usize) -> ObjectBuilder {
    // No control character, and one that is not blank.
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
