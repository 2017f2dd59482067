//! Checks events about an order against its row. An event id does not prove that this program created the event: an
//! outbox row inserted with SQL has an event id too.

use crate::assets::OrderAssets;
use crate::event::parts::OrderFacts;
use crate::ids::{ProductId, RefundId};
use crate::money::Money;
use crate::order_status::{CancelReason, OrderStatus};

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

/// What the row of an order proves about its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderEvidence {
    pub(crate) facts: OrderFacts,
    pub(crate) status: OrderStatus,
    pub(crate) cancel_reason: Option<CancelReason>,
    pub(crate) product: ProductId,
    pub(crate) total: Money,
    pub(crate) payable: Money,
    pub(crate) assets: OrderAssets,
    pub(crate) refund: Option<RefundId>,
    /// Whether the order was paid at any time.
    pub(crate) was_paid: bool,
    /// Whether the order was shipped at any time.
    pub(crate) was_shipped: bool,
}

impl OrderEvidence {
    pub(crate) fn check_facts(&self, in_event: &OrderFacts) -> Result<(), Contradiction> {
        let stored = &self.facts;
        same("orderNo", &in_event.order_no, &stored.order_no)?;
        same("buyerId", in_event.buyer_id, stored.buyer_id)?;
        same("sellerId", in_event.seller_id, stored.seller_id)?;
        same("totalAmount", in_event.total_amount, stored.total_amount)
    }

    pub(crate) fn check_product(&self, product: ProductId) -> Result<(), Contradiction> {
        same("productId", product, self.product)
    }

    pub(crate) fn check_transition(
        &self,
        is_confirmed: bool,
        claimed: &'static str,
    ) -> Result<(), Contradiction> {
        if is_confirmed {
            Ok(())
        } else {
            Err(Contradiction::TransitionNotMade { status: self.status, claimed })
        }
    }
}

pub(crate) fn same<T: PartialEq + ToString>(
    field: &'static str,
    in_event: T,
    stored: T,
) -> Result<(), Contradiction> {
    if in_event == stored {
        return Ok(());
    }
    Err(Contradiction::Field { field, said: in_event.to_string(), stored: stored.to_string() })
}

/// An optional field; `absent` in error messages if it has no value.
#[derive(PartialEq)]
pub(crate) struct Optional<T>(pub(crate) Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for Optional<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("absent"),
        }
    }
}
