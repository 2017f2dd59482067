//! The error of use cases.

use marketplace_domain::{AssetRefusal, OrderRefusal, PaymentRefusal, ProductRefusal, RefundRefusal};

use handover_outbox::UnitError;
use handover_outbox::operations::OperationError;
use handover_outbox::ports::{BrokerError, StoreError};

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
        /// The role or sign-in that the actor lacks.
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
