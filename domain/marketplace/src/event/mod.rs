//! Events of the marketplace: their types and their payloads.

mod body;
mod fields;

pub use body::{
    EventBody, InvoiceGenerated, OrderCancelled, OrderCreated, OrderFacts, OrderPaid, OrderRefunded,
    OrderStatusChanged, OrderTimeout, PaymentFor, PaymentSettled, RefundSettled,
};
use serde::{Deserialize, Serialize};

use handover_events::named;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AggregateType {
    /// An order.
    Order,
    /// A payment.
    Payment,
    /// A refund.
    Refund,
    /// An invoice.
    Invoice,
}

named!(AggregateType { Order => "Order", Payment => "Payment", Refund => "Refund", Invoice => "Invoice" });

/// The event types of spec §3; the names are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    /// An order was committed.
    OrderCreated,
    /// pending -> paid.
    OrderPaid,
    /// paid -> shipped, shipped -> completed.
    OrderStatusChanged,
    /// The order's payment deadline is to be checked; travels through the delay queue.
    OrderTimeout,
    /// pending -> cancelled.
    OrderCancelled,
    /// paid -> refunded.
    OrderRefunded,
    /// The gateway reported success.
    PaymentSucceeded,
    /// The gateway reported failure.
    PaymentFailed,
    /// A refund went through.
    RefundSucceeded,
    /// A refund did not.
    RefundFailed,
    /// An invoice was committed.
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
    /// The key it is published with; `ORDER_TIMEOUT` goes to the delay queue first (spec §3).
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

    /// The aggregate it is about.
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

    /// Whether it has a place in the order of its aggregate. `ORDER_TIMEOUT` holds back nothing and waits for nothing.
    pub const fn is_ordered(self) -> bool {
        !matches!(self, EventType::OrderTimeout)
    }
}
