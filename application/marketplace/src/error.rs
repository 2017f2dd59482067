//! The errors of use cases.

use std::convert::Infallible;

use marketplace_domain::{
    AssetRefusal, InvoiceRefusal, OrderRefusal, PaymentMethod, ProductRefusal, RefundRefusal,
};

use handover_outbox::UnitError;
use handover_outbox::ports::StoreError;

use crate::ports::{IdempotencyError, StoredResponse};

/// Reason why a use case failed. The failed unit of work was rolled back. Only after [`StoreError::CommitUnknown`], the
/// unit of work may have been committed.
///
/// `R` is the type of the refusals of this use case; [`Infallible`] if no business rule can refuse it.
#[derive(Debug, thiserror::Error)]
pub enum UseCaseError<R = Infallible> {
    /// The resource does not exist or does not belong to the caller. The error does not reveal which.
    #[error("no such {what}")]
    NotFound {
        /// Kind of the resource.
        what: &'static str,
    },
    #[error(transparent)]
    NotAllowed(#[from] NotAllowed),
    /// A business rule refuses the command.
    #[error(transparent)]
    Refused(R),
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// Another attempt with the same idempotency key is running.
    #[error("the same request is being processed")]
    InProgress,
    /// The request was executed before: this is its stored response.
    #[error("the request was executed before")]
    Replayed(StoredResponse),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The actor lacks a required role or is not signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this requires {what}")]
pub struct NotAllowed {
    /// The role or sign-in that the actor lacks.
    pub what: &'static str,
}

/// Reason why a payment is not started or settled.
#[derive(Debug, thiserror::Error)]
pub enum PaymentCommandRefusal {
    #[error(transparent)]
    Order(#[from] OrderRefusal),
    #[error(transparent)]
    Invoice(#[from] InvoiceRefusal),
    /// Not all assets of the order are locked yet. The caller should retry shortly.
    #[error("the assets of the order are still being locked")]
    AssetsNotLocked,
    /// The payment in `PROCESSING` has another method than the command.
    #[error("a payment by {running} is in progress: use that method, or wait until that payment has failed")]
    OtherMethod {
        /// Method of the payment in `PROCESSING`.
        running: PaymentMethod,
    },
}

/// Reason why a refund is not requested or settled.
#[derive(Debug, thiserror::Error)]
pub enum RefundCommandRefusal {
    #[error(transparent)]
    Order(#[from] OrderRefusal),
    #[error(transparent)]
    Invoice(#[from] InvoiceRefusal),
    #[error(transparent)]
    Refund(#[from] RefundRefusal),
}

/// Refusals that `?` converts to [`UseCaseError::Refused`].
trait BusinessRefusal {}

impl BusinessRefusal for AssetRefusal {}
impl BusinessRefusal for InvoiceRefusal {}
impl BusinessRefusal for OrderRefusal {}
impl BusinessRefusal for ProductRefusal {}
impl BusinessRefusal for RefundRefusal {}
impl BusinessRefusal for PaymentCommandRefusal {}
impl BusinessRefusal for RefundCommandRefusal {}

impl<B: BusinessRefusal, R: From<B>> From<B> for UseCaseError<R> {
    fn from(refusal: B) -> UseCaseError<R> {
        UseCaseError::Refused(refusal.into())
    }
}

impl<R> From<IdempotencyError> for UseCaseError<R> {
    fn from(error: IdempotencyError) -> UseCaseError<R> {
        match error {
            IdempotencyError::KeyReused => UseCaseError::KeyReused,
            IdempotencyError::InProgress => UseCaseError::InProgress,
            IdempotencyError::Store(error) => UseCaseError::Store(error),
            IdempotencyError::Unavailable(cause) => UseCaseError::Store(StoreError::Unavailable(cause)),
        }
    }
}

impl<R: Send + 'static> UnitError for UseCaseError<R> {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            UseCaseError::Store(error) => Some(error),
            UseCaseError::NotFound { .. }
            | UseCaseError::NotAllowed(_)
            | UseCaseError::Refused(_)
            | UseCaseError::KeyReused
            | UseCaseError::InProgress
            | UseCaseError::Replayed(_) => None,
        }
    }
}
