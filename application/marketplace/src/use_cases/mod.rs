//! What can be asked of the marketplace: one use case per file. Each reads as a paragraph: begin, read, decide,
//! write, append, commit. Adding one: a file here, a line below, a route in the HTTP adapter.

mod cancel_order;
pub mod close_overdue_order;
mod complete_order;
mod list_product;
pub mod operations;
mod place_order;
mod queries;
mod request_refund;
mod settle_payment;
mod settle_refund;
mod shelve_product;
mod ship_order;
mod start_payment;
pub(crate) mod transition;

pub use cancel_order::cancel_order;
pub use close_overdue_order::Closed;
pub use complete_order::complete_order;
pub use list_product::{ListProduct, list_product};
pub use place_order::{PlaceOrder, place_order};
pub use queries::{
    PurseView, coupons, credit, find_order, find_product, listings, notifications, orders, products, purse,
    refunds, shipments,
};
pub use request_refund::{RequestRefund, request_refund};
pub(crate) use settle_payment::captured;
pub use settle_payment::{SettlePayment, settle_payment};
pub(crate) use settle_refund::paid_out;
pub use settle_refund::{SettleRefund, settle_refund};
pub use shelve_product::{Shelf, shelve_product};
pub use ship_order::ship_order;
pub use start_payment::{StartPayment, start_payment};

use marketplace_domain::{AssetRefusal, OrderRefusal, PaymentRefusal, ProductRefusal, RefundRefusal};

use crate::mutants::{Mutant, planted};
use handover_outbox::UnitError;
use handover_outbox::operations::OperationError;
use handover_outbox::ports::{BrokerError, Changed, StoreError};

/// Why a use case did nothing. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum UseCaseError {
    /// No such thing, or not the caller's: which of the two is nobody's business.
    #[error("no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
    /// Only a signed-in user, or one with a role, may do this.
    #[error("this needs {what}")]
    NotAllowed {
        /// What is missing.
        what: &'static str,
    },
    /// The order refuses.
    #[error(transparent)]
    Order(#[from] OrderRefusal),
    /// The product refuses.
    #[error(transparent)]
    Product(#[from] ProductRefusal),
    /// The payment refuses.
    #[error(transparent)]
    Payment(#[from] PaymentRefusal),
    /// The refund refuses.
    #[error(transparent)]
    Refund(#[from] RefundRefusal),
    /// The asset refuses.
    #[error(transparent)]
    Asset(#[from] AssetRefusal),
    /// Not all assets that the order names are locked yet. It will not take long: come again.
    #[error("the assets of the order are still being locked")]
    AssetsNotLocked,
    /// The idempotency key was used for something else.
    #[error("the idempotency key was used for another request")]
    KeyTaken,
    /// Another attempt at the same request, under the same idempotency key, is at work, or has overtaken this one.
    #[error("the same request is being processed")]
    InProgress,
    /// There is nothing to release: failed events hold no later ones (`outbox.on-failed = "continue"`).
    #[error("nothing is held: outbox.on-failed is continue")]
    NothingHeld,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl From<OperationError> for UseCaseError {
    fn from(error: OperationError) -> UseCaseError {
        match error {
            OperationError::NotFound { what } => UseCaseError::NotFound { what },
            OperationError::NothingHeld => UseCaseError::NothingHeld,
            OperationError::Store(error) => UseCaseError::Store(error),
            OperationError::Broker(error) => UseCaseError::Broker(error),
        }
    }
}

impl UnitError for UseCaseError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            UseCaseError::Store(error) => Some(error),
            UseCaseError::NotFound { .. }
            | UseCaseError::NotAllowed { .. }
            | UseCaseError::Order(_)
            | UseCaseError::Product(_)
            | UseCaseError::Payment(_)
            | UseCaseError::Refund(_)
            | UseCaseError::Asset(_)
            | UseCaseError::AssetsNotLocked
            | UseCaseError::KeyTaken
            | UseCaseError::InProgress
            | UseCaseError::NothingHeld
            | UseCaseError::Broker(_) => None,
        }
    }
}

/// One row changed, or somebody was faster: then the whole attempt begins again from what is there now.
pub(crate) fn one_row(changed: Changed, what: &str) -> Result<(), StoreError> {
    if changed == Changed::None && planted(Mutant::VersionConflictIgnored) {
        return Ok(());
    }
    changed.or_conflict(what)
}
