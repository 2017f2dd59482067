//! Checks events about an order against its row. An event id does not prove that this program created the event: an
//! outbox row inserted with SQL has an event id too.

use super::Order;
use crate::{CancelReason, EventBody, Money, OrderFacts, OrderStatus, Points, ProductId};

/// Contradiction between an event and the row of its order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    #[error("{field} is {said} in the event and {stored} in the order")]
    Field {
        /// The name of the field in the payload.
        field: &'static str,
        /// The value of the field in the event.
        said: String,
        /// The value of the field in the order's row.
        stored: String,
    },
    #[error("the order is {status} and was never {claimed}")]
    TransitionNotMade {
        /// The current status of the order.
        status: OrderStatus,
        /// The status according to the event.
        claimed: &'static str,
    },
    /// The transition is not possible for any order.
    #[error("an order cannot change from {from} to {to}")]
    NoTransition { from: OrderStatus, to: OrderStatus },
    /// The cancel reasons in the event and in the order's row differ.
    #[error("the cancel reason is {said} in the event and {stored} in the order")]
    CancelReason { said: CancelReason, stored: CancelReason },
}

impl Order {
    /// Checks the fields of an event of this order, and the transition that the event announces, against the row. Later
    /// transitions of the row do no harm: they never remove `pay_time` or the shipment, which prove the earlier ones.
    /// Events of payments, refunds and invoices are not checked.
    pub fn confirms(&self, body: &EventBody) -> Result<(), Contradiction> {
        match body {
            EventBody::OrderCreated(created) => {
                self.check_facts(&created.order)?;
                self.check_product(created.product)?;
                same("price", created.price, self.total)?;
                let coupon = self.assets.coupon.map(|coupon| coupon.id);
                same("couponId", Optional(created.coupon_id), Optional(coupon))?;
                same("walletAmount", created.wallet_amount.unwrap_or(Money::ZERO), self.assets.wallet)?;
                same("points", created.points.map_or(0, Points::get), self.assets.points.get())
            }
            EventBody::OrderTimeout(timeout) => self.check_facts(&timeout.order),
            EventBody::OrderPaid(paid) => {
                self.check_facts(&paid.order)?;
                self.check_product(paid.product)?;
                self.check_transition(self.was_paid(), "paid")?;
                same("amount", paid.amount, self.payable)
            }
            EventBody::OrderStatusChanged(changed) => {
                self.check_facts(&changed.order)?;
                match (changed.old_status, changed.new_status) {
                    (OrderStatus::Paid, OrderStatus::Shipped) => {
                        self.check_transition(self.was_shipped(), "shipped")
                    }
                    (OrderStatus::Shipped, OrderStatus::Completed) => {
                        self.check_transition(self.status == OrderStatus::Completed, "completed")
                    }
                    (from, to) => Err(Contradiction::NoTransition { from, to }),
                }
            }
            EventBody::OrderCancelled(cancelled) => {
                self.check_facts(&cancelled.order)?;
                self.check_product(cancelled.product)?;
                self.check_transition(self.status == OrderStatus::Cancelled, "cancelled")?;
                match self.cancel_reason {
                    Some(stored) if stored != cancelled.reason => {
                        Err(Contradiction::CancelReason { said: cancelled.reason, stored })
                    }
                    Some(_) | None => Ok(()),
                }
            }
            EventBody::OrderRefunded(refunded) => {
                self.check_facts(&refunded.order)?;
                self.check_product(refunded.product)?;
                self.check_transition(self.status == OrderStatus::Refunded, "refunded")?;
                same("refundId", refunded.refund, self.refund.unwrap_or(refunded.refund))
            }
            EventBody::PaymentSucceeded(_)
            | EventBody::PaymentFailed(_)
            | EventBody::RefundSucceeded(_)
            | EventBody::RefundFailed(_)
            | EventBody::InvoiceGenerated(_) => Ok(()),
        }
    }

    /// Whether the order was paid at any time; `pay_time` is never removed.
    pub fn was_paid(&self) -> bool {
        self.pay_time.is_some()
    }

    /// Whether the order was shipped at any time; the shipment is never removed.
    pub fn was_shipped(&self) -> bool {
        self.shipment.is_some()
    }

    /// Whether the order was cancelled or refunded, so that its product is available again.
    pub fn is_cancelled_or_refunded(&self) -> bool {
        matches!(self.status, OrderStatus::Cancelled | OrderStatus::Refunded)
    }

    fn check_facts(&self, in_event: &OrderFacts) -> Result<(), Contradiction> {
        let stored = self.facts();
        same("orderNo", &in_event.order_no, &stored.order_no)?;
        same("buyerId", in_event.buyer_id, stored.buyer_id)?;
        same("sellerId", in_event.seller_id, stored.seller_id)?;
        same("totalAmount", in_event.total_amount, stored.total_amount)
    }

    fn check_product(&self, product: ProductId) -> Result<(), Contradiction> {
        same("productId", product, self.product)
    }

    fn check_transition(&self, is_confirmed: bool, claimed: &'static str) -> Result<(), Contradiction> {
        if is_confirmed {
            Ok(())
        } else {
            Err(Contradiction::TransitionNotMade { status: self.status, claimed })
        }
    }
}

fn same<T: PartialEq + ToString>(field: &'static str, in_event: T, stored: T) -> Result<(), Contradiction> {
    if in_event == stored {
        return Ok(());
    }
    Err(Contradiction::Field { field, said: in_event.to_string(), stored: stored.to_string() })
}

/// An optional field; `absent` in error messages if it has no value.
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
