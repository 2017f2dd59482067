//! Partition leases: which relay may publish which partition.
//!
//! **Invariant:** taking a partition increments its epoch, and a partition is taken only if its row is unchanged since
//! it was read. The observer decides whether a lease has ended ([`crate::LeaseWatch`]), because the database
//! clock may have been set.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::Partition;

use super::error::{Changed, StoreError};
use super::relay_id::{OlderRelay, RelayId};

/// A partition that a relay owns at an epoch. The relay needs this value to settle rows of the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedPartition {
    /// Partition.
    pub partition: Partition,
    /// Epoch that the partition had after the relay acquired it.
    pub epoch: i64,
}

/// Lease row of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLease {
    /// Partition.
    pub partition: Partition,
    /// Owner; `None` after the partition was released.
    pub owner: Option<RelayId>,
    /// Number that increases by one each time a relay acquires the partition.
    pub epoch: i64,
    /// End of the owner's lease.
    pub lease_until: Option<DateTime<Utc>>,
}

/// Last heartbeat of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Relay.
    pub relay: RelayId,
    /// Time until which the relay is live without another heartbeat, by the database clock.
    pub alive_until: DateTime<Utc>,
}

/// One of the live relays that do not know text keys. `now` is the time of the database clock.
pub fn older_relay(heartbeats: &[Heartbeat], now: DateTime<Utc>) -> Option<OlderRelay> {
    let is_older = |beat: &&Heartbeat| beat.alive_until > now && !beat.relay.knows_text_keys();
    heartbeats.iter().find(is_older).map(|beat| OlderRelay(beat.relay.clone()))
}

/// Reads leases.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait LeaseQueries: Send {
    /// Current time of the database clock. Contract tests can shift it.
    async fn database_now(&mut self) -> Result<DateTime<Utc>, StoreError>;

    /// Heartbeats of all relays that were not removed, live or not, ordered by relay id.
    async fn heartbeats(&mut self) -> Result<Vec<Heartbeat>, StoreError>;

    /// All partitions in order. MUST always be [`handover_events::PARTITIONS`] rows.
    async fn partition_leases(&mut self) -> Result<Vec<PartitionLease>, StoreError>;
}

/// Writes leases. Durations start at the current time of the database clock.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait LeaseRepo: Send {
    /// Records a heartbeat: the relay is live for another `for_ms` milliseconds.
    async fn heartbeat(&mut self, relay: &RelayId, for_ms: u32) -> Result<(), StoreError>;

    /// Removes the heartbeat of a relay that has ended.
    async fn delete_heartbeat(&mut self, relay: &RelayId) -> Result<(), StoreError>;

    /// Takes a partition if its row is still equal to `seen`, so that no relay has taken, renewed or released the
    /// partition since. After `Changed::One` the epoch is `seen.epoch + 1`.
    async fn acquire_partition(
        &mut self,
        relay: &RelayId,
        seen: &PartitionLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError>;

    /// Renews the leases that this relay still owns at their epochs, including expired ones that no other relay has
    /// taken. Returns the renewed ones.
    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[OwnedPartition],
        for_ms: u32,
    ) -> Result<Vec<OwnedPartition>, StoreError>;

    /// Releases the partitions that this relay still owns at their epochs: no owner, no lease, same epoch.
    async fn release_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[OwnedPartition],
    ) -> Result<(), StoreError>;

    /// Removes all heartbeats and registrations of event types, releases every partition and every leader lease without
    /// changing its epoch, and ends the leases of consume-log records in `PROCESSING`. Only for a process that is known
    /// to be the only one (SQLite, protected by the lock file).
    async fn release_all_leases(&mut self) -> Result<(), StoreError>;
}
