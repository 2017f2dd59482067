//! Operators: identity, permissions, and errors of operations.

use handover_events::{AggregateRef, EventId, TenantId, Trace};

use crate::archive::{ArchiveError, ArchiveStorageError};
use crate::ports::{BrokerError, StoreError};
use crate::transaction::UnitError;

/// A person or program that reads and changes events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// Name in the audit log.
    pub name: String,
    /// Own tenant. Reads of all tenants are recorded in the audit log of this tenant.
    pub tenant: TenantId,
    /// Whether the operator can read and change rows of all tenants, not only of its own.
    pub sees_all_tenants: bool,
    /// Whether the operator can see personal data in payloads.
    pub sees_personal_data: bool,
    /// Trace of the call.
    pub trace: Trace,
}

impl Operator {
    /// The only tenant whose rows the operator can see; `None`: it can see those of all tenants.
    pub fn only_tenant(&self) -> Option<TenantId> {
        (!self.sees_all_tenants).then_some(self.tenant)
    }

    /// Resolves the requested tenant; `None` means all tenants. An operator without access to all tenants gets its
    /// own.
    ///
    /// # Errors
    /// [`OperationError::NotFound`]: another tenant was requested, which this operator cannot see.
    pub fn visible(&self, asked: Option<TenantId>) -> Result<Option<TenantId>, OperationError> {
        match asked {
            asked if self.sees_all_tenants => Ok(asked),
            Some(tenant) if tenant != self.tenant => Err(OperationError::NotFound { what: "tenant" }),
            Some(_) | None => Ok(Some(self.tenant)),
        }
    }
}

/// Reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The object does not exist or belongs to another tenant; the caller cannot distinguish the two.
    #[error("no such {what}")]
    NotFound {
        /// Kind of object that was requested.
        what: &'static str,
    },
    /// Nothing to release: failed events block no later events (`outbox.on-failed = "continue"`).
    #[error("failed events do not block later events in this service")]
    NothingBlocked,
    /// The operation concerns all tenants, and the operator has access to one.
    #[error("only an operator of all tenants may do this")]
    ForAllTenants,
    /// The event is in the archive, where nothing can be done with it.
    #[error(
        "the event {event} is in the archive; restore it first: `handover outbox restore --event {event}`"
    )]
    Archived {
        /// The event.
        event: EventId,
    },
    /// Events of the aggregate that a filter names are in the archive, where nothing can be done with them.
    #[error(
        "events of {} {} match but are in the archive; restore them first: `handover outbox restore --aggregate {} {} \
         --tenant {}`", aggregate.kind, aggregate.id, aggregate.kind, aggregate.id, aggregate.tenant
    )]
    ArchivedAggregate {
        /// The aggregate.
        aggregate: AggregateRef,
    },
    /// A filter has a name that neither this program nor a row has.
    #[error("there is no {field} {name:?}; the most similar one is {nearest:?}")]
    UnknownName {
        /// Field of the filter: `eventType`, `aggregateType`, `consumer` or `queue`.
        field: &'static str,
        /// The name.
        name: String,
        /// The most similar name that this program knows.
        nearest: String,
    },
    /// The oldest published events were requested: they cannot be found without reading the whole table.
    #[error("the oldest events are listed only if they are not published: status NEW, RETRY or FAILED")]
    OldestPublished,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The storage of the archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveStorageError),
}

impl From<ArchiveError> for OperationError {
    fn from(error: ArchiveError) -> OperationError {
        match error {
            ArchiveError::Store(error) => error.into(),
            ArchiveError::Storage(error) => error.into(),
        }
    }
}

impl UnitError for OperationError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            OperationError::Store(error) => Some(error),
            OperationError::NotFound { .. }
            | OperationError::NothingBlocked
            | OperationError::ForAllTenants
            | OperationError::Archived { .. }
            | OperationError::ArchivedAggregate { .. }
            | OperationError::UnknownName { .. }
            | OperationError::OldestPublished
            | OperationError::Broker(_)
            | OperationError::Archive(_) => None,
        }
    }
}
