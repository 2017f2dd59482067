//! Wakes the relay of this process when a commit left it something to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use handover_events::{Partition, PartitionSet};
use tokio::sync::Notify;

/// A bell with the partitions that rang it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Wake {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    partitions: AtomicU64,
    bell: Notify,
}

impl Wake {
    /// Rings for these partitions. Rings while nobody waits are kept.
    pub fn ring(&self, partitions: PartitionSet) {
        let bits = partitions.iter().fold(0u64, |bits, partition| bits | (1 << partition.number()));
        self.inner.partitions.fetch_or(bits, Ordering::AcqRel);
        self.inner.bell.notify_one();
    }

    /// Waits for a ring and takes the partitions that rang.
    pub async fn rung(&self) -> PartitionSet {
        self.inner.bell.notified().await;
        let bits = self.inner.partitions.swap(0, Ordering::AcqRel);
        Partition::all().filter(|partition| bits & (1 << partition.number()) != 0).collect()
    }
}
