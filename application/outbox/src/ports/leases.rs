//! Who may publish which partition.
//!
//! **Invariant:** every change of owner raises the epoch, and a partition is taken only as it was seen. When a lease has
//! ended is for the observer to decide ([`crate::LeaseWatch`]): the database's clock may have been set.

use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::Partition;

use super::{Changed, StoreError};

/// One run of one relay.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub String);

impl fmt::Display for RelayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A partition held at an epoch. Settling asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionHold {
    /// Which partition.
    pub partition: Partition,
    /// The epoch in which it was taken.
    pub epoch: i64,
}

/// The lease row of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLease {
    /// Which partition.
    pub partition: Partition,
    /// Who has it; `None` after it was given back.
    pub owner: Option<RelayId>,
    /// Raised by one each time the owner changes.
    pub epoch: i64,
    /// Until when the owner has it.
    pub lease_until: Option<DateTime<Utc>>,
}

/// The last heartbeat of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Which relay.
    pub relay: RelayId,
    /// Until when it is alive, by the clock of the database at its heartbeat.
    pub alive_until: DateTime<Utc>,
}

/// Reads leases.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait LeaseQueries: Send {
    /// The database's own now; contract tests may move it.
    async fn database_now(&mut self) -> Result<DateTime<Utc>, StoreError>;

    /// The heartbeats of all relays that were not forgotten, alive or not, in order of their ids.
    async fn heartbeats(&mut self) -> Result<Vec<Heartbeat>, StoreError>;

    /// All partitions in order; MUST always be [`handover_events::PARTITIONS`] rows.
    async fn partition_leases(&mut self) -> Result<Vec<PartitionLease>, StoreError>;
}

/// Writes leases. Durations count from the database's own now.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait LeaseRepo: Send {
    /// Says that this relay lives for another `for_ms` milliseconds.
    async fn heartbeat(&mut self, relay: &RelayId, for_ms: u32) -> Result<(), StoreError>;

    /// Forgets a relay that ends.
    async fn forget_relay(&mut self, relay: &RelayId) -> Result<(), StoreError>;

    /// Takes a partition if its row still is as `seen`: not taken, renewed or given back since. On `Changed::One` the
    /// epoch is that of `seen` + 1.
    async fn take_partition(
        &mut self,
        relay: &RelayId,
        seen: &PartitionLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError>;

    /// Prolongs the leases that are still this relay's at their epochs, also one that has run out but that nobody
    /// took; tells which.
    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[PartitionHold],
        for_ms: u32,
    ) -> Result<Vec<PartitionHold>, StoreError>;

    /// Gives partitions back that are still this relay's at their epochs: no owner, no lease, same epoch.
    async fn give_back(&mut self, relay: &RelayId, holds: &[PartitionHold]) -> Result<(), StoreError>;

    /// Forgets every relay, frees every partition at its epoch, and ends the leases of consume-log rows in `PROCESSING`.
    /// Only for a process that knows it is alone (SQLite, under the lock file).
    async fn end_all_leases(&mut self) -> Result<(), StoreError>;
}
