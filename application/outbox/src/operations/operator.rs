//! Who operates the outbox, what it may see, and why it is refused.

use handover_events::{TenantId, Trace};

use crate::UnitError;
use crate::mutants::{Mutant, planted};
use crate::ports::{BrokerError, StoreError};

/// A person or a program that looks at events and moves them on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// As the audit log names it.
    pub name: String,
    /// Its own tenant. What it reads of all tenants at once is recorded in the audit log of this one.
    pub tenant: TenantId,
    /// Whether it sees and moves the rows of all tenants, and not of its own alone.
    pub sees_all: bool,
    /// Whether it sees what payloads tell of people.
    pub sees_people: bool,
    /// The trace in which it acts.
    pub trace: Trace,
}

impl Operator {
    /// The tenant whose rows it means, if it asks for this one; `None` is all tenants.
    ///
    /// # Errors
    /// [`OperationError::NotFound`]: another tenant than its own, which it does not see.
    pub fn visible(&self, asked: Option<TenantId>) -> Result<Option<TenantId>, OperationError> {
        match asked {
            asked if self.sees_all || planted(Mutant::TenantIgnored) => Ok(asked),
            Some(tenant) if tenant != self.tenant => Err(OperationError::NotFound { what: "tenant" }),
            Some(_) | None => Ok(Some(self.tenant)),
        }
    }
}

/// Why an operation did not take place.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// No such thing, or not the operator's: which of the two is nobody's business.
    #[error("no such {what}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
    },
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

impl UnitError for OperationError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            OperationError::Store(error) => Some(error),
            OperationError::NotFound { .. } | OperationError::NothingHeld | OperationError::Broker(_) => None,
        }
    }
}
