//! What payments pay for: an order of a buyer, or an invoice of a tenant.

use std::fmt;

use crate::event::PaymentFor;
use crate::{Invoice, InvoiceId, InvoiceStatus, Money, Order, OrderId, OrderStatus, UserId};
use handover_events::TenantId;

/// Names the order or invoice of a payment, capture or refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PayableId {
    Order(OrderId),
    Invoice(InvoiceId),
}

impl PayableId {
    /// `order` or `invoice`.
    pub const fn kind(self) -> &'static str {
        match self {
            PayableId::Order(_) => "order",
            PayableId::Invoice(_) => "invoice",
        }
    }

    /// The order; `None` for an invoice.
    pub const fn order(self) -> Option<OrderId> {
        match self {
            PayableId::Order(id) => Some(id),
            PayableId::Invoice(_) => None,
        }
    }

    /// The invoice; `None` for an order.
    pub const fn invoice(self) -> Option<InvoiceId> {
        match self {
            PayableId::Order(_) => None,
            PayableId::Invoice(id) => Some(id),
        }
    }
}

impl From<OrderId> for PayableId {
    fn from(id: OrderId) -> PayableId {
        PayableId::Order(id)
    }
}

impl From<InvoiceId> for PayableId {
    fn from(id: InvoiceId) -> PayableId {
        PayableId::Invoice(id)
    }
}

impl fmt::Display for PayableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = match self {
            PayableId::Order(id) => id.get(),
            PayableId::Invoice(id) => id.get(),
        };
        write!(f, "{} {id}", self.kind())
    }
}

/// The order or invoice of a payment or refund, in its current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payable {
    Order(Order),
    Invoice(Invoice),
}

impl From<Order> for Payable {
    fn from(order: Order) -> Payable {
        Payable::Order(order)
    }
}

impl From<Invoice> for Payable {
    fn from(invoice: Invoice) -> Payable {
        Payable::Invoice(invoice)
    }
}

impl Payable {
    pub const fn id(&self) -> PayableId {
        match self {
            Payable::Order(order) => PayableId::Order(order.id),
            Payable::Invoice(invoice) => PayableId::Invoice(invoice.id),
        }
    }

    pub const fn tenant(&self) -> TenantId {
        match self {
            Payable::Order(order) => order.tenant,
            Payable::Invoice(invoice) => invoice.tenant,
        }
    }

    /// The order; `None` for an invoice.
    pub const fn order(&self) -> Option<&Order> {
        match self {
            Payable::Order(order) => Some(order),
            Payable::Invoice(_) => None,
        }
    }

    /// The invoice; `None` for an order.
    pub const fn invoice(&self) -> Option<&Invoice> {
        match self {
            Payable::Order(_) => None,
            Payable::Invoice(invoice) => Some(invoice),
        }
    }

    /// The user who pays; `None` for an invoice, which the tenant pays.
    pub const fn buyer(&self) -> Option<UserId> {
        match self {
            Payable::Order(order) => Some(order.buyer),
            Payable::Invoice(_) => None,
        }
    }

    /// Amount to be paid in money.
    pub const fn amount(&self) -> Money {
        match self {
            Payable::Order(order) => order.payable,
            Payable::Invoice(invoice) => invoice.total,
        }
    }

    /// Name of the status.
    pub const fn status(&self) -> &'static str {
        match self {
            Payable::Order(order) => order.status.as_str(),
            Payable::Invoice(invoice) => invoice.status.as_str(),
        }
    }

    /// Whether a payment can pay it.
    pub fn is_pending(&self) -> bool {
        match self {
            Payable::Order(order) => order.status == OrderStatus::Pending,
            Payable::Invoice(invoice) => invoice.status == InvoiceStatus::Pending,
        }
    }

    /// Whether it is paid, and a refund changes it.
    pub fn is_paid(&self) -> bool {
        match self {
            Payable::Order(order) => order.status == OrderStatus::Paid,
            Payable::Invoice(invoice) => invoice.status == InvoiceStatus::Paid,
        }
    }

    /// Whether it uses no money: it was refunded, or can never be paid.
    pub(crate) fn is_cancelled_or_refunded(&self) -> bool {
        match self {
            Payable::Order(order) => order.is_cancelled_or_refunded(),
            Payable::Invoice(invoice) => invoice.status == InvoiceStatus::Refunded,
        }
    }

    /// Whether a refund comes too late to change it: the product was shipped.
    pub(crate) fn is_delivered(&self) -> bool {
        self.order().is_some_and(|it| matches!(it.status, OrderStatus::Shipped | OrderStatus::Completed))
    }

    /// The fields of the events of its payments and refunds.
    pub(crate) fn in_event(&self) -> PaymentFor {
        match self {
            Payable::Order(order) => PaymentFor::Order(order.facts()),
            Payable::Invoice(invoice) => PaymentFor::Invoice { invoice: invoice.id },
        }
    }
}
