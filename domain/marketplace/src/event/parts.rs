//! Parts of payloads that several event types share.

use chrono::{DateTime, Utc};
use handover_events::{Alternative, EnvelopeError, Field, Fields, Payload, PayloadField, rfc3339};
use serde::Serialize;

use crate::{Currency, InvoiceId, Money, OrderId, OrderNo, PaymentId, PaymentMethod, RefundId, UserId};

/// Fields of every payload about an order. All are required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Payload)]
#[serde(rename_all = "camelCase")]
pub struct OrderFacts {
    #[event(key, visible)]
    pub order_id: OrderId,
    #[event(visible)]
    pub order_no: OrderNo,
    pub buyer_id: UserId,
    pub seller_id: UserId,
    #[event(visible)]
    pub total_amount: Money,
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

impl Payload for PaymentFor {
    fn read(fields: &Fields<'_>) -> Result<PaymentFor, EnvelopeError> {
        if fields.has("invoiceId") {
            if fields.has("orderId") {
                return Err(EnvelopeError::Contradiction {
                    field: fields.full("invoiceId"),
                    other: "payload.orderId",
                });
            }
            return Ok(PaymentFor::Invoice { invoice: InvoiceId::read(fields, "invoiceId")? });
        }
        OrderFacts::read(fields).map(PaymentFor::Order)
    }

    fn alternatives() -> Vec<Alternative> {
        let invoice = PayloadField::of::<InvoiceId, InvoiceId>("invoiceId", true);
        let of_invoice = Alternative { fields: vec![invoice], absent: vec!["orderId"] };
        let of_orders = OrderFacts::alternatives().into_iter();
        let of_orders = of_orders.map(|facts| Alternative { absent: vec!["invoiceId"], ..facts });
        of_orders.chain([of_invoice]).collect()
    }
}

/// Payload of PAYMENT_SUCCEEDED and PAYMENT_FAILED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Payload)]
#[serde(rename_all = "camelCase")]
pub struct PaymentSettled {
    #[serde(flatten)]
    pub of: PaymentFor,
    #[event(key, visible)]
    #[serde(rename = "paymentId")]
    pub payment: PaymentId,
    pub transaction_id: String,
    #[event(visible)]
    pub amount: Money,
    #[event(visible)]
    pub currency: Currency,
    pub payment_method: PaymentMethod,
    /// Time at which the gateway reported the result.
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    pub occurred_time: DateTime<Utc>,
}

/// Payload of REFUND_SUCCEEDED and REFUND_FAILED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Payload)]
#[serde(rename_all = "camelCase")]
pub struct RefundSettled {
    #[serde(flatten)]
    pub of: PaymentFor,
    #[event(key, visible)]
    #[serde(rename = "refundId")]
    pub refund: RefundId,
    #[event(visible)]
    pub amount: Money,
    #[event(visible)]
    pub currency: Currency,
    /// Time at which the gateway reported the result.
    #[event(visible)]
    #[serde(serialize_with = "rfc3339")]
    pub occurred_time: DateTime<Utc>,
}
