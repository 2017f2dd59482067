//! The payloads of spec §3 as a table, written independently of the code that parses and serializes them.

use handover_events::{Envelope, EnvelopeError, Json};
use marketplace_domain::{EventBody, EventKind};
use serde_json::{Map, Value};

use crate::common::at;

/// The kind of value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Id(i64),
    One,
    Amount,
    Time,
    Text,
    Method,
    Status,
    Reason,
    Day,
    Currency,
    Points,
}
use Kind::{Amount, Currency, Day, Id, Method, One, Points, Reason, Status, Text, Time};

/// An event type as specified in spec §3. Payments and refunds have one row for orders and one for invoices;
/// `ORDER_CREATED` has one row without assets and one row with assets.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) routing_key: &'static str,
    pub(crate) aggregate: &'static str,
    /// The field with the aggregate id.
    pub(crate) about: &'static str,
    of: &'static [(&'static str, Kind)],
    own: &'static [(&'static str, Kind)],
    /// Optional fields; they follow the required ones.
    optional: &'static [(&'static str, Kind)],
}

pub(crate) const ORDER: &[(&str, Kind)] = &[
    ("orderId", Id(900_001)),
    ("orderNo", Text),
    ("buyerId", Id(10_001)),
    ("sellerId", Id(10_002)),
    ("totalAmount", Amount),
];
const INVOICE: &[(&str, Kind)] = &[("invoiceId", Id(400_001))];
const PAYMENT: &[(&str, Kind)] = &[
    ("paymentId", Id(600_001)),
    ("transactionId", Text),
    ("amount", Amount),
    ("currency", Currency),
    ("paymentMethod", Method),
    ("occurredTime", Time),
];
const CREATED: &[(&str, Kind)] = &[("productId", Id(70_001)), ("quantity", One), ("price", Amount)];
const ASSETS: &[(&str, Kind)] = &[("couponId", Id(80_001)), ("walletAmount", Amount), ("points", Points)];
const REFUND: &[(&str, Kind)] =
    &[("refundId", Id(500_001)), ("amount", Amount), ("currency", Currency), ("occurredTime", Time)];

const fn row(
    name: &'static str,
    routing_key: &'static str,
    (aggregate, about): (&'static str, &'static str),
    of: &'static [(&'static str, Kind)],
    own: &'static [(&'static str, Kind)],
) -> Row {
    Row { name, routing_key, aggregate, about, of, own, optional: &[] }
}

pub(crate) const ROWS: [Row; 16] = [
    row("ORDER_CREATED", "order.created", ("Order", "orderId"), ORDER, CREATED),
    Row { optional: ASSETS, ..row("ORDER_CREATED", "order.created", ("Order", "orderId"), ORDER, CREATED) },
    row(
        "ORDER_PAID",
        "order.paid",
        ("Order", "orderId"),
        ORDER,
        &[("payTime", Time), ("amount", Amount), ("productId", Id(70_001))],
    ),
    row(
        "ORDER_STATUS_CHANGED",
        "order.status.changed",
        ("Order", "orderId"),
        ORDER,
        &[("oldStatus", Status), ("newStatus", Status), ("changedAt", Time)],
    ),
    row("ORDER_TIMEOUT", "order.timeout.delay", ("Order", "orderId"), ORDER, &[("createTime", Time)]),
    row(
        "ORDER_CANCELLED",
        "order.cancelled",
        ("Order", "orderId"),
        ORDER,
        &[("reason", Reason), ("cancelledAt", Time), ("productId", Id(70_001))],
    ),
    row(
        "ORDER_REFUNDED",
        "order.refunded",
        ("Order", "orderId"),
        ORDER,
        &[("refundId", Id(500_001)), ("amount", Amount), ("refundedAt", Time), ("productId", Id(70_001))],
    ),
    row("PAYMENT_SUCCEEDED", "payment.succeeded", ("Payment", "paymentId"), ORDER, PAYMENT),
    row("PAYMENT_SUCCEEDED", "payment.succeeded", ("Payment", "paymentId"), INVOICE, PAYMENT),
    row("PAYMENT_FAILED", "payment.failed", ("Payment", "paymentId"), ORDER, PAYMENT),
    row("PAYMENT_FAILED", "payment.failed", ("Payment", "paymentId"), INVOICE, PAYMENT),
    row("REFUND_SUCCEEDED", "refund.succeeded", ("Refund", "refundId"), ORDER, REFUND),
    row("REFUND_SUCCEEDED", "refund.succeeded", ("Refund", "refundId"), INVOICE, REFUND),
    row("REFUND_FAILED", "refund.failed", ("Refund", "refundId"), ORDER, REFUND),
    row("REFUND_FAILED", "refund.failed", ("Refund", "refundId"), INVOICE, REFUND),
    row(
        "INVOICE_GENERATED",
        "invoice.generated",
        ("Invoice", "invoiceId"),
        INVOICE,
        &[("periodStart", Day), ("periodEnd", Day), ("total", Amount), ("currency", Currency)],
    ),
];

impl Kind {
    pub(crate) fn legal(self) -> String {
        match self {
            Id(id) => id.to_string(),
            One => "1".into(),
            Amount => "88.50".into(),
            Time => r#""2026-02-04T10:30:00.250000Z""#.into(),
            Text => r#""202602041030001234""#.into(),
            Method => r#""bank-transfer""#.into(),
            Status => r#""shipped""#.into(),
            Reason => r#""asset_lock_failed""#.into(),
            Day => r#""2026-02-28""#.into(),
            Currency => r#""CNY""#.into(),
            Points => "300".into(),
        }
    }

    /// Invalid values, in addition to those that are invalid for every field: `true`, a list, an object.
    pub(crate) fn illegal(self) -> &'static [&'static str] {
        match self {
            Id(_) => {
                &[r#""900001""#, r#""""#, "1.5", "900001.0", "9e5", "0", "-1", "9007199254740992", "1e400"]
            }
            One => &[r#""1""#, "0", "2", "-1", "1.0", "1.5"],
            Amount => &[
                r#""88.50""#,
                "88.505",
                "1.000",
                "-1",
                "-0.01",
                "1e2",
                "8.85e1",
                "90071992547409.92",
                "1e400",
                r#""""#,
            ],
            Time => &[
                "1770201000",
                r#""yesterday""#,
                r#""2026-02-04""#,
                r#""2026-02-04T10:30:00""#,
                r#""2026-02-30T10:30:00Z""#,
                r#""9999-12-31T23:59:59-00:01""#,
            ],
            Text | Method => &["5", "88.50"],
            Status => &["5", r#""SHIPPED""#, r#""done""#, r#""""#],
            Reason => &["5", r#""BUYER""#, r#""bored""#, r#""""#],
            Day => &[
                "20260228",
                r#""2026-02-30""#,
                r#""2026-2-28""#,
                r#"" 2026-02-28""#,
                r#""2026 - 02 - 28""#,
                r#""+12026-02-28""#,
                r#""2026-02-28T00:00:00Z""#,
            ],
            Currency => &["5", r#""cny""#, r#""USD""#, r#""""#],
            Points => &[r#""300""#, r#""""#, "1.5", "300.0", "3e2", "-1", "9007199254740992", "1e400"],
        }
    }
}

impl Row {
    pub(crate) fn event_type(&self) -> EventKind {
        self.name.parse().expect("an event type of the contract")
    }

    pub(crate) fn required(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        self.of.iter().chain(self.own).copied()
    }

    pub(crate) fn optional(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        self.optional.iter().copied()
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        self.required().chain(self.optional())
    }

    /// The payload as stored in an outbox row: one line, fields in the order of the contract.
    pub(crate) fn text(&self) -> String {
        let fields: Vec<String> =
            self.fields().map(|(name, kind)| format!(r#""{name}":{}"#, kind.legal())).collect();
        format!("{{{}}}", fields.join(","))
    }

    pub(crate) fn payload(&self) -> Map<String, Value> {
        serde_json::from_str(&self.text()).expect("an object")
    }

    pub(crate) fn parse(&self, payload: Map<String, Value>) -> Result<EventBody, EnvelopeError> {
        EventBody::parse(self.event_type(), &json(payload))
    }

    pub(crate) fn envelope(&self) -> Envelope {
        let payload = self.payload();
        Envelope {
            event_id: "e-1".parse().expect("an event id"),
            event_type: self.name.into(),
            aggregate_type: self.aggregate.into(),
            aggregate_id: payload[self.about].as_i64().expect("an id").into(),
            occurred_at: at("2026-02-04T10:30:00Z"),
            trace_id: "t-1".into(),
            payload: json(payload),
        }
    }
}

fn json(payload: Map<String, Value>) -> Json {
    Json::parse(&Value::Object(payload).to_string()).expect("a JSON object")
}
