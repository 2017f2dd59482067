//! Wake-up notifications: a commit wakes the relay and consumers that wait for it.
//!
//! Within a process a commit wakes the relay for its partitions and the consumers of its queues directly. The
//! notification also stays pending until it is sent to other processes, if the engine supports that.
//!
//! **Invariant:** a notification names only partitions and queues, and only triggers a query. A superfluous
//! notification costs a query; a lost one delays the relay or consumer until its next poll.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use handover_events::{Partition, PartitionSet};
use handover_outbox::WakeupNotifier;
use tokio::sync::{Notify, watch};

/// PostgreSQL limits the payload of NOTIFY to less than 8000 bytes.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
const MAX_PAYLOAD_BYTES: usize = 7_000;
/// Payload that stands for all partitions and queues, used when the list of queues is too long.
const ALL: &str = "*";

/// Wakes the relay and the consumers of a store after commits, in this process and in others.
pub(crate) struct CommitNotifier {
    relay: WakeupNotifier,
    queues: Mutex<BTreeMap<String, watch::Sender<u64>>>,
    pending: Mutex<PendingWakeups>,
    has_pending: Notify,
}

/// Notifications of this process that were not sent to other processes yet.
#[derive(Default)]
struct PendingWakeups {
    partitions: PartitionSet,
    queues: BTreeSet<String>,
}

impl PendingWakeups {
    fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.queues.is_empty()
    }
}

impl CommitNotifier {
    pub(crate) fn new(relay: WakeupNotifier) -> CommitNotifier {
        CommitNotifier {
            relay,
            queues: Mutex::default(),
            pending: Mutex::default(),
            has_pending: Notify::new(),
        }
    }

    /// Wakes the relays after a commit of events in these partitions.
    pub(crate) fn notify_relays(&self, partitions: PartitionSet) {
        self.relay.notify(partitions);
        let mut pending = lock(&self.pending);
        pending.partitions = pending.partitions.iter().chain(partitions.iter()).collect();
        drop(pending);
        self.has_pending.notify_one();
    }

    /// Wakes the consumers of this queue, in all processes.
    pub(crate) fn notify_queue(&self, queue: &str) {
        self.notify_local_queue(queue);
        lock(&self.pending).queues.insert(queue.to_owned());
        self.has_pending.notify_one();
    }

    /// Wakes the consumers of every queue, in this process only.
    pub(crate) fn notify_local_queues(&self) {
        for sender in lock(&self.queues).values() {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    fn notify_local_queue(&self, queue: &str) {
        if let Some(sender) = lock(&self.queues).get(queue) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Returns a receiver whose value changes with every notification for this queue.
    pub(crate) fn subscribe(&self, queue: &str) -> watch::Receiver<u64> {
        lock(&self.queues).entry(queue.to_owned()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// The queues that consumers of this process wait for.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code))]
    pub(crate) fn subscribed_queues(&self) -> Vec<String> {
        let queues = lock(&self.queues);
        queues
            .iter()
            .filter(|(_, sender)| sender.receiver_count() > 0)
            .map(|(queue, _)| queue.clone())
            .collect()
    }

    /// Waits until notifications for other processes are pending.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) async fn wait_for_pending(&self) {
        // The loop checks `pending`, not the wake-up: a waiting future may be dropped after it consumed the wake-up.
        while lock(&self.pending).is_empty() {
            self.has_pending.notified().await;
        }
    }

    /// Takes the pending notifications as the payload for other processes; `None` if there are none.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))]
    pub(crate) fn take_pending(&self) -> Option<String> {
        let pending = std::mem::take(&mut *lock(&self.pending));
        if pending.is_empty() {
            return None;
        }
        let bits = pending.partitions.iter().fold(0u64, |bits, partition| bits | (1 << partition.number()));
        let mut text = format!("{bits:x}");
        for queue in &pending.queues {
            text.push('\n');
            text.push_str(queue);
        }
        Some(if text.len() > MAX_PAYLOAD_BYTES { ALL.to_owned() } else { text })
    }

    /// Handles a notification that another process sent: wakes waiters of this process only.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))]
    pub(crate) fn on_notification(&self, text: &str) {
        let mut lines = text.lines();
        let bits = lines.next().and_then(|bits| u64::from_str_radix(bits, 16).ok());
        // A payload in an unknown format, for example of a newer version, may concern every waiter.
        let Some(bits) = bits else { return self.notify_all_local() };
        if bits != 0 {
            self.relay.notify(Partition::all().filter(|one| bits & (1 << one.number()) != 0).collect());
        }
        lines.for_each(|queue| self.notify_local_queue(queue));
    }

    /// Wakes every waiter of this process: notifications may have been missed.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))]
    pub(crate) fn notify_all_local(&self) {
        self.relay.notify(PartitionSet::ALL);
        self.notify_local_queues();
    }
}

/// Locks a mutex. No code panics while it holds these locks, and the data would be consistent even then, so poisoning
/// is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use handover_events::{Partition, PartitionSet};
    use handover_outbox::WakeupNotifier;

    use super::CommitNotifier;

    fn partitions(numbers: &[i64]) -> PartitionSet {
        numbers.iter().filter_map(|number| Partition::from_number(*number)).collect()
    }

    #[tokio::test]
    async fn notification_of_one_process_wakes_waiters_of_another_once() {
        let sender = CommitNotifier::new(WakeupNotifier::default());
        let relay = WakeupNotifier::default();
        let receiver = CommitNotifier::new(relay.clone());
        let mut notified = receiver.subscribe("a.queue");
        let other = receiver.subscribe("b.queue");
        sender.notify_relays(partitions(&[0, 63]));
        sender.notify_queue("a.queue");
        let payload = sender.take_pending().unwrap();
        receiver.on_notification(&payload);
        assert_eq!(relay.notified().await, partitions(&[0, 63]));
        assert!(notified.has_changed().unwrap() && !other.has_changed().unwrap());
        notified.borrow_and_update();
        let pending = (sender.take_pending(), receiver.take_pending());
        assert_eq!(pending, (None, None), "a notification was sent twice or forwarded");
    }

    #[tokio::test]
    async fn oversized_notification_wakes_every_waiter() {
        let sender = CommitNotifier::new(WakeupNotifier::default());
        let relay = WakeupNotifier::default();
        let receiver = CommitNotifier::new(relay.clone());
        let waiting = receiver.subscribe("a.queue");
        (0..100).for_each(|number| sender.notify_queue(&format!("{number}{}", "x".repeat(100))));
        receiver.on_notification(&sender.take_pending().unwrap());
        assert_eq!(relay.notified().await, PartitionSet::ALL);
        assert!(waiting.has_changed().unwrap());
    }

    #[test]
    fn subscribed_queues_omits_queues_without_receiver() {
        let notifier = CommitNotifier::new(WakeupNotifier::default());
        let waiting = notifier.subscribe("a.queue");
        drop(notifier.subscribe("b.queue"));
        assert_eq!(notifier.subscribed_queues(), ["a.queue"]);
        drop(waiting);
        assert!(notifier.subscribed_queues().is_empty());
    }
}
