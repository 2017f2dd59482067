//! The payload of each event type. A new type needs a variant here, and a name, a routing key and an
//! aggregate type in `event.rs`.

use chrono::{DateTime, NaiveDate, Utc};
use handover_events::{Envelope, EnvelopeError, Fields, Json, rfc3339};
use serde::Serialize;

use super::EventType;
use super::fields::{money, points};
use crate::{
    CancelReason, CouponId, Currency, InvoiceId, Money, OrderId, OrderNo, OrderStatus, PaymentId,
    PaymentMethod, Points, ProductId, RefundId, UserId,
};

/// Fields of every payload about an order. All are required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderFacts {
    pub order_id: OrderId,
    pub order_no: OrderNo,
    pub buyer_id: UserId,
    pub seller_id: UserId,
    pub total_amount: Money,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderCreated {
    #[serde(flatten)]
    pub order: OrderFacts,
    #[serde(rename = "productId")]
    pub product: ProductId,
    /// Number of items; always 1, because products are unique.
    pub quantity: i64,
    pub price: Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupon_id: Option<CouponId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wallet_amount: Option<Money>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Points>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderPaid {
    #[serde(flatten)]
    pub order: OrderFacts,
    #[serde(serialize_with = "rfc3339")]
    pub pay_time: DateTime<Utc>,
    /// Amount paid in money.
    pub amount: Money,
    #[serde(rename = "productId")]
    pub product: ProductId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderStatusChanged {
    #[serde(flatten)]
    pub order: OrderFacts,
    pub old_status: OrderStatus,
    pub new_status: OrderStatus,
    #[serde(serialize_with = "rfc3339")]
    pub changed_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderTimeout {
    #[serde(flatten)]
    pub order: OrderFacts,
    /// Time at which the order was created; the payment deadline is computed from this time.
    #[serde(serialize_with = "rfc3339")]
    pub create_time: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderCancelled {
    #[serde(flatten)]
    pub order: OrderFacts,
    pub reason: CancelReason,
    #[serde(serialize_with = "rfc3339")]
    pub cancelled_at: DateTime<Utc>,
    /// The product, which is available again.
    #[serde(rename = "productId")]
    pub product: ProductId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderRefunded {
    #[serde(flatten)]
    pub order: OrderFacts,
    #[serde(rename = "refundId")]
    pub refund: RefundId,
    pub amount: Money,
    #[serde(serialize_with = "rfc3339")]
    pub refunded_at: DateTime<Utc>,
    /// The product, which is available again.
    #[serde(rename = "productId")]
    pub product: ProductId,
}

/// The subject of a payment or refund: either an order or an invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PaymentFor {
    Order(OrderFacts),
    Invoice {
        #[serde(rename = "invoiceId")]
        invoice: InvoiceId,
    },
}

/// Payload of PAYMENT_SUCCEEDED and PAYMENT_FAILED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentSettled {
    #[serde(flatten)]
    pub of: PaymentFor,
    #[serde(rename = "paymentId")]
    pub payment: PaymentId,
    pub transaction_id: String,
    pub amount: Money,
    pub currency: Currency,
    pub payment_method: PaymentMethod,
    /// Time at which the gateway reported the result.
    #[serde(serialize_with = "rfc3339")]
    pub occurred_time: DateTime<Utc>,
}

/// Payload of REFUND_SUCCEEDED and REFUND_FAILED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundSettled {
    #[serde(flatten)]
    pub of: PaymentFor,
    #[serde(rename = "refundId")]
    pub refund: RefundId,
    pub amount: Money,
    pub currency: Currency,
    /// Time at which the gateway reported the result.
    #[serde(serialize_with = "rfc3339")]
    pub occurred_time: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceGenerated {
    #[serde(rename = "invoiceId")]
    pub invoice: InvoiceId,
    /// First day of the billing period.
    pub period_start: NaiveDate,
    /// Last day of the billing period, inclusive.
    pub period_end: NaiveDate,
    pub total: Money,
    pub currency: Currency,
}

/// Payload of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EventBody {
    OrderCreated(OrderCreated),
    OrderPaid(OrderPaid),
    OrderStatusChanged(OrderStatusChanged),
    OrderTimeout(OrderTimeout),
    OrderCancelled(OrderCancelled),
    OrderRefunded(OrderRefunded),
    PaymentSucceeded(PaymentSettled),
    PaymentFailed(PaymentSettled),
    RefundSucceeded(RefundSettled),
    RefundFailed(RefundSettled),
    InvoiceGenerated(InvoiceGenerated),
}

impl EventBody {
    pub const fn event_type(&self) -> EventType {
        match self {
            EventBody::OrderCreated(_) => EventType::OrderCreated,
            EventBody::OrderPaid(_) => EventType::OrderPaid,
            EventBody::OrderStatusChanged(_) => EventType::OrderStatusChanged,
            EventBody::OrderTimeout(_) => EventType::OrderTimeout,
            EventBody::OrderCancelled(_) => EventType::OrderCancelled,
            EventBody::OrderRefunded(_) => EventType::OrderRefunded,
            EventBody::PaymentSucceeded(_) => EventType::PaymentSucceeded,
            EventBody::PaymentFailed(_) => EventType::PaymentFailed,
            EventBody::RefundSucceeded(_) => EventType::RefundSucceeded,
            EventBody::RefundFailed(_) => EventType::RefundFailed,
            EventBody::InvoiceGenerated(_) => EventType::InvoiceGenerated,
        }
    }

    pub const fn aggregate_id(&self) -> i64 {
        match self {
            EventBody::OrderCreated(body) => body.order.order_id.get(),
            EventBody::OrderPaid(body) => body.order.order_id.get(),
            EventBody::OrderStatusChanged(body) => body.order.order_id.get(),
            EventBody::OrderTimeout(body) => body.order.order_id.get(),
            EventBody::OrderCancelled(body) => body.order.order_id.get(),
            EventBody::OrderRefunded(body) => body.order.order_id.get(),
            EventBody::PaymentSucceeded(body) | EventBody::PaymentFailed(body) => body.payment.get(),
            EventBody::RefundSucceeded(body) | EventBody::RefundFailed(body) => body.refund.get(),
            EventBody::InvoiceGenerated(body) => body.invoice.get(),
        }
    }

    /// The order fields of the payload; `None` if the aggregate is not an order.
    pub const fn order(&self) -> Option<&OrderFacts> {
        match self {
            EventBody::OrderCreated(body) => Some(&body.order),
            EventBody::OrderPaid(body) => Some(&body.order),
            EventBody::OrderStatusChanged(body) => Some(&body.order),
            EventBody::OrderTimeout(body) => Some(&body.order),
            EventBody::OrderCancelled(body) => Some(&body.order),
            EventBody::OrderRefunded(body) => Some(&body.order),
            EventBody::PaymentSucceeded(_)
            | EventBody::PaymentFailed(_)
            | EventBody::RefundSucceeded(_)
            | EventBody::RefundFailed(_)
            | EventBody::InvoiceGenerated(_) => None,
        }
    }

    /// Serializes the payload for the outbox row, with the fields in the order of the contract.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the payload of an envelope. Rejects unknown types, missing fields, fields of the wrong type, and a
    /// payload that contradicts the aggregate of the envelope.
    pub fn of(envelope: &Envelope) -> Result<EventBody, EnvelopeError> {
        let unknown = |_| EnvelopeError::UnknownType { name: envelope.event_type.clone() };
        let event_type: EventType = envelope.event_type.parse().map_err(unknown)?;
        if envelope.aggregate_type != event_type.aggregate().as_str() {
            return Err(EnvelopeError::Contradiction { field: "aggregateType".into(), other: "eventType" });
        }
        let body = EventBody::parse(event_type, &envelope.payload)?;
        if body.aggregate_id() != envelope.aggregate_id {
            return Err(EnvelopeError::Contradiction { field: "aggregateId".into(), other: "payload" });
        }
        Ok(body)
    }

    /// Parses the payload of an event type. The error names the first field that is missing or has the wrong type.
    pub fn parse(event_type: EventType, payload: &Json) -> Result<EventBody, EnvelopeError> {
        let f = Fields::of(payload, "payload")?;
        Ok(match event_type {
            EventType::OrderCreated => EventBody::OrderCreated(OrderCreated {
                order: order_facts(&f)?,
                product: f.id("productId")?,
                quantity: match f.integer("quantity")? {
                    1 => 1,
                    _ => return Err(f.wrong_type("quantity", "1, because products are unique")),
                },
                price: money(&f, "price")?,
                coupon_id: f.optional("couponId", Fields::id)?,
                wallet_amount: f.optional("walletAmount", money)?,
                points: f.optional("points", points)?,
            }),
            EventType::OrderPaid => EventBody::OrderPaid(OrderPaid {
                order: order_facts(&f)?,
                pay_time: f.time("payTime")?,
                amount: money(&f, "amount")?,
                product: f.id("productId")?,
            }),
            EventType::OrderStatusChanged => EventBody::OrderStatusChanged(OrderStatusChanged {
                order: order_facts(&f)?,
                old_status: f.named("oldStatus", "an order status")?,
                new_status: f.named("newStatus", "an order status")?,
                changed_at: f.time("changedAt")?,
            }),
            EventType::OrderTimeout => EventBody::OrderTimeout(OrderTimeout {
                order: order_facts(&f)?,
                create_time: f.time("createTime")?,
            }),
            EventType::OrderCancelled => EventBody::OrderCancelled(OrderCancelled {
                order: order_facts(&f)?,
                reason: f.named("reason", "a cancel reason")?,
                cancelled_at: f.time("cancelledAt")?,
                product: f.id("productId")?,
            }),
            EventType::OrderRefunded => EventBody::OrderRefunded(OrderRefunded {
                order: order_facts(&f)?,
                refund: f.id("refundId")?,
                amount: money(&f, "amount")?,
                refunded_at: f.time("refundedAt")?,
                product: f.id("productId")?,
            }),
            EventType::PaymentSucceeded => EventBody::PaymentSucceeded(payment_settled(&f)?),
            EventType::PaymentFailed => EventBody::PaymentFailed(payment_settled(&f)?),
            EventType::RefundSucceeded => EventBody::RefundSucceeded(refund_settled(&f)?),
            EventType::RefundFailed => EventBody::RefundFailed(refund_settled(&f)?),
            EventType::InvoiceGenerated => EventBody::InvoiceGenerated(InvoiceGenerated {
                invoice: f.id("invoiceId")?,
                period_start: f.day("periodStart")?,
                period_end: f.day("periodEnd")?,
                total: money(&f, "total")?,
                currency: currency(&f)?,
            }),
        })
    }
}

fn order_facts(f: &Fields<'_>) -> Result<OrderFacts, EnvelopeError> {
    Ok(OrderFacts {
        order_id: f.id("orderId")?,
        order_no: OrderNo::stored(f.text("orderNo")?.to_owned()),
        buyer_id: f.id("buyerId")?,
        seller_id: f.id("sellerId")?,
        total_amount: money(f, "totalAmount")?,
    })
}

fn payment_for(f: &Fields<'_>) -> Result<PaymentFor, EnvelopeError> {
    if f.has("invoiceId") {
        if f.has("orderId") {
            return Err(EnvelopeError::Contradiction {
                field: f.full("invoiceId"),
                other: "payload.orderId",
            });
        }
        return Ok(PaymentFor::Invoice { invoice: f.id("invoiceId")? });
    }
    order_facts(f).map(PaymentFor::Order)
}

fn payment_settled(f: &Fields<'_>) -> Result<PaymentSettled, EnvelopeError> {
    Ok(PaymentSettled {
        of: payment_for(f)?,
        payment: f.id("paymentId")?,
        transaction_id: f.text("transactionId")?.to_owned(),
        amount: money(f, "amount")?,
        currency: currency(f)?,
        payment_method: PaymentMethod::stored(f.text("paymentMethod")?),
        occurred_time: f.time("occurredTime")?,
    })
}

fn refund_settled(f: &Fields<'_>) -> Result<RefundSettled, EnvelopeError> {
    Ok(RefundSettled {
        of: payment_for(f)?,
        refund: f.id("refundId")?,
        amount: money(f, "amount")?,
        currency: currency(f)?,
        occurred_time: f.time("occurredTime")?,
    })
}

fn currency(f: &Fields<'_>) -> Result<Currency, EnvelopeError> {
    match f.text("currency")? {
        "CNY" => Ok(Currency::CNY),
        _ => Err(f.wrong_type("currency", "CNY")),
    }
}
