//! JSON Schemas of envelope and payloads.

use handover_events::MAX_ID;
use marketplace_domain::{AggregateType, CancelReason, Currency, EventType, OrderStatus, PaymentMethod};
use serde_json::{Map, Value, json};

use super::messages::emitted;

/// Type of a field.
#[derive(Clone, Copy)]
enum Kind {
    Id,
    Points,
    /// Always 1: every product is unique.
    One,
    Money,
    Time,
    Day,
    Text,
    OrderStatus,
    CancelReason,
    Currency,
    PaymentMethod,
}
use Kind::{Currency as Cur, Day, Id, Money, One, Points, Text, Time};

type Field = (&'static str, Kind);

/// Fields of every payload about an order.
const ORDER: &[Field] =
    &[("orderId", Id), ("orderNo", Text), ("buyerId", Id), ("sellerId", Id), ("totalAmount", Money)];
const INVOICE: &[Field] = &[("invoiceId", Id)];
const CREATED: &[Field] = &[("productId", Id), ("quantity", One), ("price", Money)];
const ASSETS: &[Field] = &[("couponId", Id), ("walletAmount", Money), ("points", Points)];
const PAID: &[Field] = &[("payTime", Time), ("amount", Money), ("productId", Id)];
const CHANGED: &[Field] =
    &[("oldStatus", Kind::OrderStatus), ("newStatus", Kind::OrderStatus), ("changedAt", Time)];
const TIMED_OUT: &[Field] = &[("createTime", Time)];
const CANCELLED: &[Field] = &[("reason", Kind::CancelReason), ("cancelledAt", Time), ("productId", Id)];
const REFUNDED: &[Field] = &[("refundId", Id), ("amount", Money), ("refundedAt", Time), ("productId", Id)];
const PAYMENT: &[Field] = &[
    ("paymentId", Id),
    ("transactionId", Text),
    ("amount", Money),
    ("currency", Cur),
    ("paymentMethod", Kind::PaymentMethod),
    ("occurredTime", Time),
];
const REFUND: &[Field] = &[("refundId", Id), ("amount", Money), ("currency", Cur), ("occurredTime", Time)];
const GENERATED: &[Field] = &[("periodStart", Day), ("periodEnd", Day), ("total", Money), ("currency", Cur)];

/// Schema of the payload of an event type.
pub(super) fn payload(event_type: EventType) -> Value {
    let of_order = |own| object(&[ORDER, own], &[]);
    match event_type {
        EventType::OrderCreated => object(&[ORDER, CREATED], ASSETS),
        EventType::OrderPaid => of_order(PAID),
        EventType::OrderStatusChanged => of_order(CHANGED),
        EventType::OrderTimeout => of_order(TIMED_OUT),
        EventType::OrderCancelled => of_order(CANCELLED),
        EventType::OrderRefunded => of_order(REFUNDED),
        EventType::PaymentSucceeded | EventType::PaymentFailed => for_order_or_invoice(PAYMENT),
        EventType::RefundSucceeded | EventType::RefundFailed => for_order_or_invoice(REFUND),
        EventType::InvoiceGenerated => object(&[INVOICE, GENERATED], &[]),
    }
}

/// Schema of the envelope, with any payload.
pub(super) fn envelope() -> Value {
    json!({
        "type": "object",
        "description": "The envelope of every message; names, nesting and order of its fields are frozen.",
        "required": ["eventId", "eventType", "aggregateType", "aggregateId", "occurredAt", "traceId", "payload"],
        "properties": {
            "eventId": {
                "type": "string", "pattern": "^[!-~]{1,64}$",
                "description": "Globally unique; the idempotency key. The service generates UUIDs of version 7.",
            },
            "eventType": { "type": "string" },
            "aggregateType": { "type": "string", "description": "Type of the aggregate that changed." },
            "aggregateId": { "type": "integer", "description": "The id of the aggregate." },
            "occurredAt": { "type": "string", "format": "date-time", "description": "Time of the change, in UTC." },
            "traceId": {
                "type": "string",
                "description": "The trace of the request that caused the change.",
            },
            "payload": { "type": "object" },
        },
    })
}

/// Schema of the envelope with the payload of one event type.
pub(super) fn enveloped(event_type: EventType) -> Value {
    let aggregate: AggregateType = event_type.aggregate();
    json!({
        "allOf": [{ "$ref": "#/components/schemas/Envelope" }],
        "properties": {
            "eventType": { "const": event_type.as_str() },
            "aggregateType": { "const": aggregate.as_str() },
            "payload": { "$ref": format!("#/components/schemas/{}", schema_name(event_type)) },
        },
    })
}

/// Name of a payload's schema.
pub(super) fn schema_name(event_type: EventType) -> String {
    format!("{}_PAYLOAD", event_type.as_str())
}

/// All schemas that messages refer to.
pub(super) fn schemas() -> Map<String, Value> {
    let payloads = emitted().map(|event_type| (schema_name(event_type), payload(event_type)));
    std::iter::once(("Envelope".to_owned(), envelope())).chain(payloads).collect()
}

/// An object with the fields of an order or of an invoice, never of both.
fn for_order_or_invoice(own: &[Field]) -> Value {
    let mut order = object(&[ORDER, own], &[]);
    let mut invoice = object(&[INVOICE, own], &[]);
    order["not"] = json!({ "required": ["invoiceId"] });
    invoice["not"] = json!({ "required": ["orderId"] });
    json!({ "oneOf": [order, invoice] })
}

/// An object with these fields; other fields are allowed.
fn object(required: &[&[Field]], optional: &[Field]) -> Value {
    let required: Vec<&Field> = required.iter().copied().flatten().collect();
    let properties: Map<String, Value> = required
        .iter()
        .copied()
        .chain(optional)
        .map(|(name, kind)| ((*name).to_owned(), kind.schema()))
        .collect();
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "required": names, "properties": properties })
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Kind::Id => json!({ "type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_ID }),
            Kind::Points => json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": MAX_ID }),
            Kind::One => json!({ "type": "integer", "const": 1 }),
            // No `multipleOf: 0.01`: most validators check it in binary floating point and reject amounts such as 1.13.
            Kind::Money => json!({ "type": "number", "minimum": 0, "description": "With two decimals." }),
            Kind::Time => json!({ "type": "string", "format": "date-time" }),
            Kind::Day => json!({ "type": "string", "format": "date" }),
            Kind::Text => json!({ "type": "string" }),
            Kind::OrderStatus => names(OrderStatus::ALL, OrderStatus::as_str),
            Kind::CancelReason => names(CancelReason::ALL, CancelReason::as_str),
            Kind::PaymentMethod => json!({
                "type": "string", "enum": PaymentMethod::PUBLISHED,
                "description": "`other`: an older version stored another text, which is not published.",
            }),
            Kind::Currency => json!({ "type": "string", "enum": [Currency::CNY.as_str()] }),
        }
    }
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Value {
    json!({ "type": "string", "enum": all.iter().map(|value| name(*value)).collect::<Vec<_>>() })
}
