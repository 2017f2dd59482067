//! Event types of the marketplace and their payloads.

mod body;
mod fields;

pub use body::{
    EventBody, InvoiceGenerated, OrderCancelled, OrderCreated, OrderFacts, OrderPaid, OrderRefunded,
    OrderStatusChanged, OrderTimeout, PaymentFor, PaymentSettled, RefundSettled,
};
use serde::{Deserialize, Serialize};

use handover_events::named;

/// The type of aggregate that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AggregateType {
    Order,
    Payment,
    Refund,
    Invoice,
}

named!(AggregateType { Order => "Order", Payment => "Payment", Refund => "Refund", Invoice => "Invoice" });

/// The event types. Their names are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    /// An order was placed.
    OrderCreated,
    /// `pending` -> `paid`.
    OrderPaid,
    /// `paid` -> `shipped`, `shipped` -> `completed`.
    OrderStatusChanged,
    /// Triggers the check of the payment deadline. The delay queue delays the message until the deadline.
    OrderTimeout,
    /// `pending` -> `cancelled`.
    OrderCancelled,
    /// `paid` -> `refunded`.
    OrderRefunded,
    /// The gateway reported a successful payment.
    PaymentSucceeded,
    /// The gateway reported a failed payment.
    PaymentFailed,
    /// The gateway reported a successful refund.
    RefundSucceeded,
    /// The gateway reported a failed refund.
    RefundFailed,
    /// An invoice was created.
    InvoiceGenerated,
}

named!(EventType {
    OrderCreated => "ORDER_CREATED", OrderPaid => "ORDER_PAID", OrderStatusChanged => "ORDER_STATUS_CHANGED",
    OrderTimeout => "ORDER_TIMEOUT", OrderCancelled => "ORDER_CANCELLED", OrderRefunded => "ORDER_REFUNDED",
    PaymentSucceeded => "PAYMENT_SUCCEEDED", PaymentFailed => "PAYMENT_FAILED",
    RefundSucceeded => "REFUND_SUCCEEDED", RefundFailed => "REFUND_FAILED", InvoiceGenerated => "INVOICE_GENERATED"
});

/// A routing key of the topic exchange.
pub type RoutingKey = &'static str;

impl EventType {
    /// The routing key for publishing; that of `ORDER_TIMEOUT` routes to the delay queue.
    pub const fn routing_key(self) -> RoutingKey {
        match self {
            EventType::OrderCreated => "order.created",
            EventType::OrderPaid => "order.paid",
            EventType::OrderStatusChanged => "order.status.changed",
            EventType::OrderTimeout => "order.timeout.delay",
            EventType::OrderCancelled => "order.cancelled",
            EventType::OrderRefunded => "order.refunded",
            EventType::PaymentSucceeded => "payment.succeeded",
            EventType::PaymentFailed => "payment.failed",
            EventType::RefundSucceeded => "refund.succeeded",
            EventType::RefundFailed => "refund.failed",
            EventType::InvoiceGenerated => "invoice.generated",
        }
    }

    /// The type of the event's aggregate.
    pub const fn aggregate(self) -> AggregateType {
        match self {
            EventType::OrderCreated
            | EventType::OrderPaid
            | EventType::OrderStatusChanged
            | EventType::OrderTimeout
            | EventType::OrderCancelled
            | EventType::OrderRefunded => AggregateType::Order,
            EventType::PaymentSucceeded | EventType::PaymentFailed => AggregateType::Payment,
            EventType::RefundSucceeded | EventType::RefundFailed => AggregateType::Refund,
            EventType::InvoiceGenerated => AggregateType::Invoice,
        }
    }

    /// Whether events of this type are ordered within their aggregate. `ORDER_TIMEOUT` neither waits for earlier events
    /// nor blocks later ones.
    pub const fn is_ordered(self) -> bool {
        !matches!(self, EventType::OrderTimeout)
    }
}
