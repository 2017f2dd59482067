//! The order's row as evidence for what an event says of it. An event id proves nothing: a row of the outbox that was
//! inserted by hand has one too (004 Q5).

use super::{CancelReason, Order, OrderStatus};
use crate::{EventBody, Money, OrderFacts, Points, ProductId};

/// Why the row of an order contradicts an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// A field differs from the order's.
    #[error("{field} is {said} in the event and {stored} in the order")]
    Field {
        /// The payload's field.
        field: &'static str,
        /// In the event.
        said: String,
        /// In the order.
        stored: String,
    },
    /// The order never made this transition.
    #[error("the order is {status} and was never {claimed}")]
    Never {
        /// Its status now.
        status: OrderStatus,
        /// What the event says it became.
        claimed: &'static str,
    },
    /// No order makes this transition.
    #[error("no order goes from {from} to {to}")]
    NoTransition {
        /// The status before.
        from: OrderStatus,
        /// The status after.
        to: OrderStatus,
    },
    /// It was cancelled for another reason.
    #[error("the order was cancelled for the reason {stored}, the event says {said}")]
    CancelReason {
        /// In the event.
        said: CancelReason,
        /// In the order.
        stored: CancelReason,
    },
}

impl Order {
    /// Whether the row confirms what an event says of this order: the fields that every event carries, and the transition
    /// that it announces. The row may be further on; an order never loses `pay_time` or its carrier.
    pub fn confirms(&self, body: &EventBody) -> Result<(), Contradiction> {
        match body {
            EventBody::OrderCreated(created) => {
                self.has(&created.order)?;
                self.is_for(created.product)?;
                same("price", created.price, self.total)?;
                let coupon = self.assets.coupon.map(|coupon| coupon.id);
                same("couponId", Optional(created.coupon_id), Optional(coupon))?;
                same("walletAmount", created.wallet_amount.unwrap_or(Money::ZERO), self.assets.wallet)?;
                same("points", created.points.map_or(0, Points::get), self.assets.points.get())
            }
            EventBody::OrderTimeout(timeout) => self.has(&timeout.order),
            EventBody::OrderPaid(paid) => {
                self.has(&paid.order)?;
                self.is_for(paid.product)?;
                self.was(self.was_paid(), "paid")?;
                same("amount", paid.amount, self.payable)
            }
            EventBody::OrderStatusChanged(changed) => {
                self.has(&changed.order)?;
                match (changed.old_status, changed.new_status) {
                    (OrderStatus::Paid, OrderStatus::Shipped) => self.was(self.was_shipped(), "shipped"),
                    (OrderStatus::Shipped, OrderStatus::Completed) => {
                        self.was(self.status == OrderStatus::Completed, "completed")
                    }
                    (from, to) => Err(Contradiction::NoTransition { from, to }),
                }
            }
            EventBody::OrderCancelled(cancelled) => {
                self.has(&cancelled.order)?;
                self.is_for(cancelled.product)?;
                self.was(self.status == OrderStatus::Cancelled, "cancelled")?;
                match self.cancel_reason {
                    Some(stored) if stored != cancelled.reason => {
                        Err(Contradiction::CancelReason { said: cancelled.reason, stored })
                    }
                    Some(_) | None => Ok(()),
                }
            }
            EventBody::OrderRefunded(refunded) => {
                self.has(&refunded.order)?;
                self.is_for(refunded.product)?;
                self.was(self.status == OrderStatus::Refunded, "refunded")?;
                same("refundId", refunded.refund, self.refund.unwrap_or(refunded.refund))
            }
            EventBody::PaymentSucceeded(_)
            | EventBody::PaymentFailed(_)
            | EventBody::RefundSucceeded(_)
            | EventBody::RefundFailed(_)
            | EventBody::InvoiceGenerated(_) => Ok(()),
        }
    }

    /// Whether the order was ever paid: nothing takes `pay_time` away.
    pub fn was_paid(&self) -> bool {
        self.pay_time.is_some()
    }

    /// Whether the order was ever shipped: nothing takes its carrier away.
    pub fn was_shipped(&self) -> bool {
        self.shipment.is_some()
    }

    /// Whether the order ended without a buyer: its product is free again.
    pub fn is_undone(&self) -> bool {
        matches!(self.status, OrderStatus::Cancelled | OrderStatus::Refunded)
    }

    fn has(&self, said: &OrderFacts) -> Result<(), Contradiction> {
        let stored = self.facts();
        same("orderNo", &said.order_no, &stored.order_no)?;
        same("buyerId", said.buyer_id, stored.buyer_id)?;
        same("sellerId", said.seller_id, stored.seller_id)?;
        same("totalAmount", said.total_amount, stored.total_amount)
    }

    fn is_for(&self, product: ProductId) -> Result<(), Contradiction> {
        same("productId", product, self.product)
    }

    fn was(&self, is_confirmed: bool, claimed: &'static str) -> Result<(), Contradiction> {
        if is_confirmed { Ok(()) } else { Err(Contradiction::Never { status: self.status, claimed }) }
    }
}

fn same<T: PartialEq + ToString>(field: &'static str, said: T, stored: T) -> Result<(), Contradiction> {
    if said == stored {
        return Ok(());
    }
    Err(Contradiction::Field { field, said: said.to_string(), stored: stored.to_string() })
}

/// A field that may be absent.
#[derive(PartialEq)]
struct Optional<T>(Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for Optional<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("absent"),
        }
    }
}
