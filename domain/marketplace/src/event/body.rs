//! The payload of each event type (spec §3; 000 §13). Adding a type: a variant here, its name and key in `mod.rs`.

use chrono::{DateTime, NaiveDate, Utc};
use handover_events::{Envelope, EnvelopeError, Fields, rfc3339};
use serde::Serialize;
use serde_json::Value;

use super::EventType;
use super::fields::{money, points};
use crate::{
    CancelReason, CouponId, Currency, InvoiceId, Money, OrderId, OrderNo, OrderStatus, PaymentId, Points,
    ProductId, RefundId, UserId,
};

/// What every payload about an order carries; none of it may ever be left out (000 §6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderFacts {
    /// The order.
    pub order_id: OrderId,
    /// Its number for people.
    pub order_no: OrderNo,
    /// Who buys.
    pub buyer_id: UserId,
    /// Who sells.
    pub seller_id: UserId,
    /// The price of the product.
    pub total_amount: Money,
}

/// ORDER_CREATED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderCreated {
    /// Which order.
    #[serde(flatten)]
    pub order: OrderFacts,
    /// What it takes.
    #[serde(rename = "productId")]
    pub product: ProductId,
    /// Always 1: goods are unique.
    pub quantity: i64,
    /// The price of one.
    pub price: Money,
    /// The coupon it names, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupon_id: Option<CouponId>,
    /// The wallet amount it names, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wallet_amount: Option<Money>,
    /// The points it names, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Points>,
}

/// ORDER_PAID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderPaid {
    /// Which order.
    #[serde(flatten)]
    pub order: OrderFacts,
    /// When it was paid.
    #[serde(serialize_with = "rfc3339")]
    pub pay_time: DateTime<Utc>,
    /// What was paid in money.
    pub amount: Money,
    /// What was bought.
    #[serde(rename = "productId")]
    pub product: ProductId,
}

/// ORDER_STATUS_CHANGED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderStatusChanged {
    /// Which order.
    #[serde(flatten)]
    pub order: OrderFacts,
    /// Before.
    pub old_status: OrderStatus,
    /// After.
    pub new_status: OrderStatus,
    /// When.
    #[serde(serialize_with = "rfc3339")]
    pub changed_at: DateTime<Utc>,
}

/// ORDER_TIMEOUT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderTimeout {
    /// Which order.
    #[serde(flatten)]
    pub order: OrderFacts,
    /// When the order was created; its deadline is counted from here.
    #[serde(serialize_with = "rfc3339")]
    pub create_time: DateTime<Utc>,
}

/// ORDER_CANCELLED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderCancelled {
    /// Which order.
    #[serde(flatten)]
    pub order: OrderFacts,
    /// Why.
    pub reason: CancelReason,
    /// When.
    #[serde(serialize_with = "rfc3339")]
    pub cancelled_at: DateTime<Utc>,
    /// What is free again.
    #[serde(rename = "productId")]
    pub product: ProductId,
}

/// ORDER_REFUNDED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderRefunded {
    /// Which order.
    #[serde(flatten)]
    pub order: OrderFacts,
    /// By which refund.
    #[serde(rename = "refundId")]
    pub refund: RefundId,
    /// How much.
    pub amount: Money,
    /// When.
    #[serde(serialize_with = "rfc3339")]
    pub refunded_at: DateTime<Utc>,
    /// What is free again.
    #[serde(rename = "productId")]
    pub product: ProductId,
}

/// What a payment or refund is for: an order or an invoice, never both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum PaymentFor {
    /// An order.
    Order(OrderFacts),
    /// An invoice.
    Invoice {
        /// Which.
        #[serde(rename = "invoiceId")]
        invoice: InvoiceId,
    },
}

/// PAYMENT_SUCCEEDED and PAYMENT_FAILED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentSettled {
    /// What it pays.
    #[serde(flatten)]
    pub of: PaymentFor,
    /// Which payment.
    #[serde(rename = "paymentId")]
    pub payment: PaymentId,
    /// The gateway's id.
    pub transaction_id: String,
    /// How much.
    pub amount: Money,
    /// In which currency.
    pub currency: Currency,
    /// How.
    pub payment_method: String,
    /// When it was reported.
    #[serde(serialize_with = "rfc3339")]
    pub occurred_time: DateTime<Utc>,
}

/// REFUND_SUCCEEDED and REFUND_FAILED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundSettled {
    /// What is paid back.
    #[serde(flatten)]
    pub of: PaymentFor,
    /// Which refund.
    #[serde(rename = "refundId")]
    pub refund: RefundId,
    /// How much.
    pub amount: Money,
    /// In which currency.
    pub currency: Currency,
    /// When it was reported.
    #[serde(serialize_with = "rfc3339")]
    pub occurred_time: DateTime<Utc>,
}

/// INVOICE_GENERATED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceGenerated {
    /// Which invoice.
    #[serde(rename = "invoiceId")]
    pub invoice: InvoiceId,
    /// First day of the period.
    pub period_start: NaiveDate,
    /// Last day of the period.
    pub period_end: NaiveDate,
    /// The fee.
    pub total: Money,
    /// In which currency.
    pub currency: Currency,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EventBody {
    /// ORDER_CREATED.
    OrderCreated(OrderCreated),
    /// ORDER_PAID.
    OrderPaid(OrderPaid),
    /// ORDER_STATUS_CHANGED.
    OrderStatusChanged(OrderStatusChanged),
    /// ORDER_TIMEOUT.
    OrderTimeout(OrderTimeout),
    /// ORDER_CANCELLED.
    OrderCancelled(OrderCancelled),
    /// ORDER_REFUNDED.
    OrderRefunded(OrderRefunded),
    /// PAYMENT_SUCCEEDED.
    PaymentSucceeded(PaymentSettled),
    /// PAYMENT_FAILED.
    PaymentFailed(PaymentSettled),
    /// REFUND_SUCCEEDED.
    RefundSucceeded(RefundSettled),
    /// REFUND_FAILED.
    RefundFailed(RefundSettled),
    /// INVOICE_GENERATED.
    InvoiceGenerated(InvoiceGenerated),
}

impl EventBody {
    /// Its type.
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

    /// The id of the aggregate it is about.
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

    /// What it says of its order, if it is an event of an order.
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

    /// The payload as it goes into the outbox row, fields in the order of the contract.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The typed payload of an envelope. Refuses unknown types, missing or ill-typed fields and a payload about another
    /// aggregate.
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

    /// Reads the payload of a type. The error names the first field that is missing or ill-typed.
    pub fn parse(event_type: EventType, payload: &Value) -> Result<EventBody, EnvelopeError> {
        let f = Fields::of(payload, "payload")?;
        Ok(match event_type {
            EventType::OrderCreated => EventBody::OrderCreated(OrderCreated {
                order: order_facts(&f)?,
                product: f.id("productId")?,
                quantity: match f.integer("quantity")? {
                    1 => 1,
                    _ => return Err(f.ill("quantity", "1: goods are unique")),
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
        payment_method: f.text("paymentMethod")?.to_owned(),
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
        _ => Err(f.ill("currency", "CNY")),
    }
}
