//! Use cases of the marketplace. A command has these steps: begin, read, decide, write, append its events, commit. To
//! add a use case, create a file here, add its `mod` line below, and add a route in the HTTP adapter.

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
    AccountBalance, coupons, credit, find_order, find_product, listings, notifications, orders, products,
    purse, refunds, shipments,
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

use handover_outbox::UnitError;
use handover_outbox::operations::OperationError;
use handover_outbox::ports::{BrokerError, Changed, StoreError};

/// Reason why a use case failed. The failed unit of work was rolled back. Only after [`StoreError::CommitUnknown`], the
/// unit of work may have been committed.
#[derive(Debug, thiserror::Error)]
pub enum UseCaseError {
    /// The resource does not exist or does not belong to the caller. The error does not reveal which.
    #[error("no such {what}")]
    NotFound {
        /// Kind of the resource.
        what: &'static str,
    },
    /// The actor lacks a required role or is not signed in.
    #[error("this requires {what}")]
    NotAllowed {
        /// The missing requirement.
        what: &'static str,
    },
    #[error(transparent)]
    Order(#[from] OrderRefusal),
    #[error(transparent)]
    Product(#[from] ProductRefusal),
    #[error(transparent)]
    Payment(#[from] PaymentRefusal),
    #[error(transparent)]
    Refund(#[from] RefundRefusal),
    #[error(transparent)]
    Asset(#[from] AssetRefusal),
    /// Not all assets of the order are locked yet. The caller should retry shortly.
    #[error("the assets of the order are still being locked")]
    AssetsNotLocked,
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// Another attempt with the same idempotency key is running, or has taken over the claim of this attempt.
    #[error("the same request is being processed")]
    InProgress,
    /// There is nothing to release: failed events do not block later ones (`outbox.on-failed = "continue"`).
    #[error("nothing is held: outbox.on-failed is continue")]
    NothingHeld,
    /// The database failed.
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
            | UseCaseError::KeyReused
            | UseCaseError::InProgress
            | UseCaseError::NothingHeld
            | UseCaseError::Broker(_) => None,
        }
    }
}

/// Requires that a conditional write changed one row. Otherwise another transaction changed the row first, and the attempt
/// is repeated with the current rows.
pub(crate) fn one_row(changed: Changed, what: &str) -> Result<(), StoreError> {
    changed.or_conflict(what)
}
