//! The row types that are not types of the domain or of the ports.

use handover_events::TenantId;
use marketplace::ports::{BuyerCredit, IdKind, ListingEntry};
use marketplace_domain::{AssetOperation, Entry, OperationKey, UserId};

#[derive(Debug, Clone)]
pub(crate) struct ListingRow {
    pub(crate) tenant: TenantId,
    pub(crate) seller: UserId,
    pub(crate) entry: ListingEntry,
}

#[derive(Debug, Clone)]
pub(crate) struct CreditRow {
    pub(crate) tenant: TenantId,
    pub(crate) buyer: UserId,
    pub(crate) credit: BuyerCredit,
}

/// An operation and its number in the sequence of postings.
#[derive(Debug, Clone)]
pub(crate) struct OperationRow {
    pub(crate) number: i64,
    pub(crate) operation: AssetOperation,
}

/// A ledger entry and its operation.
#[derive(Debug, Clone)]
pub(crate) struct EntryRow {
    pub(crate) id: i64,
    pub(crate) operation: (TenantId, OperationKey),
    pub(crate) entry: Entry,
}

#[derive(Debug, Clone)]
pub(crate) struct IdBlockRow {
    pub(crate) kind: IdKind,
    pub(crate) next_id: i64,
}
