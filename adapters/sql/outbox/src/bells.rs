//! Who waits for something in the database, and how it learns that there is something.
//!
//! Within a process whoever commits rings: the relay's bell for partitions, a bell per queue for consumers. What was
//! rung is kept until it was told to other processes, where the engine can tell them.
//!
//! **Invariant:** a bell says that looking may be worth it, never what there is: one too many costs a query, and one
//! that is lost is made up for by whoever looks by himself, some time later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use handover_events::{Partition, PartitionSet};
use handover_outbox::Wake;
use tokio::sync::{Notify, watch};

/// A NOTIFY carries less than 8000 bytes.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
const LONGEST: usize = 7_000;
/// Everything: what is told where the rest would not fit.
const ALL: &str = "*";

/// The bells of a store.
pub(crate) struct Bells {
    relay: Wake,
    queues: Mutex<BTreeMap<String, watch::Sender<u64>>>,
    untold: Mutex<Untold>,
    told: Notify,
}

/// What was rung here and nobody else knows of.
#[derive(Default)]
struct Untold {
    partitions: PartitionSet,
    queues: BTreeSet<String>,
}

impl Untold {
    fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.queues.is_empty()
    }
}

impl Bells {
    pub(crate) fn new(relay: Wake) -> Bells {
        Bells { relay, queues: Mutex::default(), untold: Mutex::default(), told: Notify::new() }
    }

    /// Events were committed in these partitions.
    pub(crate) fn events(&self, partitions: PartitionSet) {
        self.relay.ring(partitions);
        let mut untold = lock(&self.untold);
        untold.partitions = untold.partitions.iter().chain(partitions.iter()).collect();
        drop(untold);
        self.told.notify_one();
    }

    /// Something became ready in this queue.
    pub(crate) fn queue(&self, queue: &str) {
        self.ring(queue);
        lock(&self.untold).queues.insert(queue.to_owned());
        self.told.notify_one();
    }

    /// Everybody of this process looks.
    pub(crate) fn all_queues(&self) {
        for bell in lock(&self.queues).values() {
            bell.send_modify(|rings| *rings = rings.wrapping_add(1));
        }
    }

    fn ring(&self, queue: &str) {
        if let Some(bell) = lock(&self.queues).get(queue) {
            bell.send_modify(|rings| *rings = rings.wrapping_add(1));
        }
    }

    /// The bell of a queue.
    pub(crate) fn of(&self, queue: &str) -> watch::Receiver<u64> {
        lock(&self.queues).entry(queue.to_owned()).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Queues that somebody here waits for.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code))]
    pub(crate) fn waited_for(&self) -> Vec<String> {
        let queues = lock(&self.queues);
        queues.iter().filter(|(_, bell)| bell.receiver_count() > 0).map(|(queue, _)| queue.clone()).collect()
    }

    /// Waits until there is something to tell others.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) async fn something_to_tell(&self) {
        // By what there is, not by having been woken: whoever waits may be dropped between the two.
        while lock(&self.untold).is_empty() {
            self.told.notified().await;
        }
    }

    /// What is to be told to others, if anything; from here on it counts as told.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))]
    pub(crate) fn tell(&self) -> Option<String> {
        let untold = std::mem::take(&mut *lock(&self.untold));
        if untold.is_empty() {
            return None;
        }
        let bits = untold.partitions.iter().fold(0u64, |bits, partition| bits | (1 << partition.number()));
        let mut text = format!("{bits:x}");
        for queue in &untold.queues {
            text.push('\n');
            text.push_str(queue);
        }
        Some(if text.len() > LONGEST { ALL.to_owned() } else { text })
    }

    /// Others said this: rings here and is not told again.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))]
    pub(crate) fn heard(&self, text: &str) {
        let mut lines = text.lines();
        let bits = lines.next().and_then(|bits| u64::from_str_radix(bits, 16).ok());
        // What nobody understands, a newer version perhaps, may mean anything.
        let Some(bits) = bits else { return self.may_have_missed() };
        if bits != 0 {
            self.relay.ring(Partition::all().filter(|one| bits & (1 << one.number()) != 0).collect());
        }
        lines.for_each(|queue| self.ring(queue));
    }

    /// Others may have said anything meanwhile: everybody looks.
    #[cfg_attr(not(any(feature = "postgres", feature = "mysql")), allow(dead_code))]
    pub(crate) fn may_have_missed(&self) {
        self.relay.ring(PartitionSet::ALL);
        self.all_queues();
    }
}

/// Nothing panics while holding these locks; if it did, what they hold would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use handover_events::{Partition, PartitionSet};
    use handover_outbox::Wake;

    use super::Bells;

    fn partitions(numbers: &[i64]) -> PartitionSet {
        numbers.iter().filter_map(|number| Partition::from_number(*number)).collect()
    }

    #[tokio::test]
    async fn what_one_process_rings_another_hears() {
        let (here, relay) = (Bells::new(Wake::default()), Wake::default());
        let there = Bells::new(relay.clone());
        let (mut waited, other) = (there.of("a.queue"), there.of("b.queue"));
        here.events(partitions(&[0, 63]));
        here.queue("a.queue");
        let text = here.tell().unwrap();
        there.heard(&text);
        assert_eq!(relay.rung().await, partitions(&[0, 63]));
        assert!(waited.has_changed().unwrap() && !other.has_changed().unwrap());
        waited.borrow_and_update();
        assert_eq!((here.tell(), there.tell()), (None, None), "told once, and what was heard is not told on");
    }

    #[tokio::test]
    async fn what_does_not_fit_or_is_not_understood_is_for_everybody() {
        let (here, relay) = (Bells::new(Wake::default()), Wake::default());
        let there = Bells::new(relay.clone());
        let waited = there.of("a.queue");
        (0..100).for_each(|number| here.queue(&format!("{number}{}", "x".repeat(100))));
        there.heard(&here.tell().unwrap());
        assert_eq!(relay.rung().await, PartitionSet::ALL);
        assert!(waited.has_changed().unwrap());
    }

    #[test]
    fn only_queues_that_somebody_waits_for_are_looked_after() {
        let bells = Bells::new(Wake::default());
        let waiting = bells.of("a.queue");
        drop(bells.of("b.queue"));
        assert_eq!(bells.waited_for(), ["a.queue"]);
        drop(waiting);
        assert!(bells.waited_for().is_empty());
    }
}
