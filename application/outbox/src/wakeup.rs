//! Wakes the relay of this process after a commit that created work for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use handover_events::{Partition, PartitionSet};
use tokio::sync::Notify;

/// Wake-up signal with the partitions to read. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct WakeupNotifier {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    partitions: AtomicU64,
    notify: Notify,
}

impl WakeupNotifier {
    /// Notifies the relay that these partitions have new work. A notification is stored until the relay waits.
    pub fn notify(&self, partitions: PartitionSet) {
        let bits = partitions.iter().fold(0u64, |bits, partition| bits | (1 << partition.number()));
        self.inner.partitions.fetch_or(bits, Ordering::AcqRel);
        self.inner.notify.notify_one();
    }

    /// Whether a notification waits for the relay.
    pub fn is_pending(&self) -> bool {
        self.inner.partitions.load(Ordering::Acquire) != 0
    }

    /// Waits for a notification and returns all partitions notified since the last call.
    pub async fn notified(&self) -> PartitionSet {
        self.inner.notify.notified().await;
        let bits = self.inner.partitions.swap(0, Ordering::AcqRel);
        Partition::all().filter(|partition| bits & (1 << partition.number()) != 0).collect()
    }
}
