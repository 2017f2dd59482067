//! The leases of the partitions that a relay owns. The windows in flight check them before they publish.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handover_events::{Partition, PartitionSet};
use tokio::time::Instant;

use crate::ports::OwnedPartition;

struct OwnedLease {
    epoch: i64,
    /// The lease in the database ends later than this time.
    valid_until: Instant,
}

/// Owned partitions, each with its epoch and the end of its lease. Clones share them.
#[derive(Clone, Default)]
pub(super) struct OwnedLeases(Arc<Mutex<BTreeMap<Partition, OwnedLease>>>);

impl OwnedLeases {
    /// Partitions whose rows may be published now.
    pub(super) fn valid(&self) -> PartitionSet {
        let now = Instant::now();
        self.lock()
            .iter()
            .filter(|(_, lease)| now < lease.valid_until)
            .map(|(partition, _)| *partition)
            .collect()
    }

    /// Partitions whose rows may be published now and that are still owned at the given epochs.
    pub(super) fn valid_since(&self, owned_partitions: &[OwnedPartition]) -> PartitionSet {
        let now = Instant::now();
        let leases = self.lock();
        let is_valid = |owned: &&OwnedPartition| {
            leases
                .get(&owned.partition)
                .is_some_and(|lease| lease.epoch == owned.epoch && now < lease.valid_until)
        };
        owned_partitions.iter().filter(is_valid).map(|owned| owned.partition).collect()
    }

    /// Owned partitions with their epochs, as settlement requires them.
    pub(super) fn partitions(&self) -> Vec<OwnedPartition> {
        let owned = |(partition, lease): (&Partition, &OwnedLease)| OwnedPartition {
            partition: *partition,
            epoch: lease.epoch,
        };
        self.lock().iter().map(owned).collect()
    }

    /// Replaces the leases.
    pub(super) fn set(&self, owned: Vec<OwnedPartition>, valid_until: Instant) {
        let lease = |owned: OwnedPartition| (owned.partition, OwnedLease { epoch: owned.epoch, valid_until });
        *self.lock() = owned.into_iter().map(lease).collect();
    }

    /// Removes partitions that are still recorded at these epochs.
    pub(super) fn remove(&self, lost: &[OwnedPartition]) {
        self.lock().retain(|partition, lease| {
            !lost.contains(&OwnedPartition { partition: *partition, epoch: lease.epoch })
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Partition, OwnedLease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
