//! Two windows of the relay in flight: one is published while the other one is published or settled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_contract::faulty::{FaultyStore, StoreCall, StoreFault};
use handover_events::OutboxStatus;
use handover_memory::{MemoryBroker, MemoryUnit};
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;
use handover_outbox::wrap::BrokerWrapper;
use tokio::sync::watch;

use crate::library::{Library, event_id, eventually};
use crate::{lent, loans};

/// How the broker answers to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Confirm,
    /// Returns this event and confirms the others.
    Return(&'static str),
    Unreachable,
}

/// Records the windows, and answers to each one when the test lets it.
struct HeldBroker {
    inner: MemoryBroker,
    windows: Mutex<Vec<Vec<String>>>,
    answers: watch::Sender<BTreeMap<usize, Answer>>,
}

impl HeldBroker {
    fn windows(&self) -> Vec<Vec<String>> {
        self.windows.lock().unwrap().clone()
    }

    fn answer(&self, window: usize, answer: Answer) {
        self.answers.send_modify(|answers| {
            answers.insert(window, answer);
        });
    }
}

#[async_trait]
impl BrokerWrapper for HeldBroker {
    fn inner(&self) -> &dyn Broker {
        &self.inner
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let number = {
            let mut windows = self.windows.lock().unwrap();
            windows.push(window.iter().map(|outgoing| outgoing.event_id().to_string()).collect());
            windows.len() - 1
        };
        let mut answers = self.answers.subscribe();
        let answer = answers.wait_for(|answers| answers.contains_key(&number)).await.unwrap()[&number];
        let returned = match answer {
            Answer::Confirm => None,
            Answer::Return(id) => Some(id),
            Answer::Unreachable => return Err(BrokerError::Unreachable("connection reset".into())),
        };
        let mut outcomes = Vec::new();
        for outgoing in window {
            match returned {
                Some(id) if outgoing.event_id().as_str() == id => {
                    outcomes.push(outgoing.returned("NO_ROUTE"))
                }
                Some(_) | None => outcomes.extend(self.inner().publish(vec![outgoing]).await?),
            }
        }
        Ok(outcomes)
    }
}

struct Pipeline {
    library: Library,
    broker: Arc<HeldBroker>,
}

impl Pipeline {
    /// Events `book-seq` in this order, and a relay with windows of two rows.
    async fn publishing(events: &[(i64, i64)]) -> Pipeline {
        Pipeline::publishing_on(Arc::clone, events).await
    }

    /// As [`Pipeline::publishing`], with a relay on another store.
    async fn publishing_on(
        store: impl FnOnce(&Arc<OutboxStore>) -> Arc<OutboxStore>,
        events: &[(i64, i64)],
    ) -> Pipeline {
        let mut library = Library::sending([lent()]).with(&loans());
        let broker = Arc::new(HeldBroker {
            inner: library.broker.clone(),
            windows: Mutex::default(),
            answers: watch::channel(BTreeMap::new()).0,
        });
        library.outbox.broker = Arc::clone(&broker) as Arc<_>;
        library.prepare().await;
        let tx = &library.outbox.tx;
        library.outbox.tx = tx.with_store(store(tx.store()));
        let pipeline = Pipeline { library, broker };
        let settings = RelaySettings { batch: 2.try_into().unwrap(), ..RelaySettings::default() };
        pipeline.library.start_relay_with(&settings);
        eventually(async || pipeline.owned().await.iter().all(|lease| lease.owner.is_some())).await;
        pipeline.append(events).await;
        pipeline
    }

    async fn append(&self, events: &[(i64, i64)]) {
        let event = |(book, seq): &(i64, i64)| NewEvent {
            max_retry_count: 3,
            ..self.library.event(&format!("{book}-{seq}"), "BOOK_LENT", *book, *seq, r#"{"reader":3}"#)
        };
        self.library.commit(events.iter().map(event).collect()).await;
    }

    async fn owned(&self) -> Vec<PartitionLease> {
        self.library.outbox.view().await.unwrap().outbox_view().partition_leases().await.unwrap()
    }

    /// A unit of work that keeps the relay from settling, until it is dropped.
    async fn hold_settlement(&self) -> Box<MemoryUnit> {
        let leases = self.owned().await;
        let relay = leases[0].owner.clone().unwrap();
        let owned: Vec<OwnedPartition> = leases
            .iter()
            .map(|lease| OwnedPartition { partition: lease.partition, epoch: lease.epoch })
            .collect();
        let mut unit = self.library.tx.begin().await.unwrap();
        assert_eq!(unit.outbox().fence(&relay, &owned).await.unwrap().iter().count(), owned.len());
        unit
    }

    /// Waits until exactly these windows are published or wait for their answers.
    async fn assert_windows(&self, expected: &[&[&str]]) {
        eventually(async || self.broker.windows().len() >= expected.len()).await;
        self.pass(Duration::from_millis(100)).await;
        assert_eq!(self.broker.windows(), expected);
    }

    async fn pass(&self, duration: Duration) {
        self.library.outbox.sleep(duration).await;
    }

    async fn status(&self, id: &str) -> OutboxStatus {
        self.library.row(id).await.status
    }

    async fn is_sent(&self, ids: &[&str]) -> bool {
        for id in ids {
            if self.status(id).await != OutboxStatus::Sent {
                return false;
            }
        }
        true
    }
}

#[tokio::test(start_paused = true)]
async fn next_window_is_published_while_the_confirms_of_the_previous_one_are_awaited() {
    let pipeline = Pipeline::publishing(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"]]).await;
    pipeline.broker.answer(1, Answer::Confirm);
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"], &["5-1", "6-1"]]).await;
    assert!(pipeline.is_sent(&["3-1", "4-1"]).await, "a window does not wait for an earlier one");
    assert_eq!(pipeline.status("1-1").await, OutboxStatus::New);
    pipeline.broker.answer(0, Answer::Confirm);
    pipeline.broker.answer(2, Answer::Confirm);
    eventually(async || pipeline.is_sent(&["1-1", "2-1", "5-1", "6-1"]).await).await;
    pipeline.pass(Duration::from_secs(20)).await;
    assert_eq!(pipeline.broker.windows().len(), 3, "each event is published once");
}

/// A broker could not confirm a window of very long messages within the time limit.
#[tokio::test(start_paused = true)]
async fn window_of_long_payloads_is_published_in_parts() {
    let pipeline = Pipeline::publishing(&[]).await;
    let long = format!(r#"{{"reader":3,"note":"{}"}}"#, "x".repeat(700_000));
    let event = |book: i64| pipeline.library.event(&format!("{book}-1"), "BOOK_LENT", book, 1, &long);
    pipeline.library.commit((1..=2).map(event).collect()).await;
    pipeline.assert_windows(&[&["1-1"]]).await;
    pipeline.broker.answer(0, Answer::Confirm);
    pipeline.assert_windows(&[&["1-1"], &["2-1"]]).await;
    pipeline.broker.answer(1, Answer::Confirm);
    eventually(async || pipeline.is_sent(&["1-1", "2-1"]).await).await;
}

/// Each window is in memory as a whole.
#[tokio::test(start_paused = true)]
async fn window_after_one_of_very_long_payloads_has_fewer_rows() {
    let pipeline = Pipeline::publishing(&[]).await;
    let long = format!(r#"{{"reader":3,"note":"{}"}}"#, "x".repeat(5_000_000));
    let event = |book: i64| {
        let payload = if book <= 2 { &long } else { r#"{"reader":3}"# };
        pipeline.library.event(&format!("{book}-1"), "BOOK_LENT", book, 1, payload)
    };
    pipeline.library.commit((1..=6).map(event).collect()).await;
    pipeline.assert_windows(&[&["1-1"], &["3-1"]]).await;
    pipeline.broker.answer(1, Answer::Confirm);
    pipeline.assert_windows(&[&["1-1"], &["3-1"], &["4-1", "5-1"]]).await;
    for window in 0..=4 {
        pipeline.broker.answer(window, Answer::Confirm);
    }
    eventually(async || pipeline.is_sent(&["1-1", "2-1", "3-1", "4-1", "5-1", "6-1"]).await).await;
}

#[tokio::test(start_paused = true)]
async fn next_window_is_published_while_the_settlement_of_the_previous_one_is_held() {
    let pipeline = Pipeline::publishing(&[]).await;
    let held = pipeline.hold_settlement().await;
    pipeline.append(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]).await;
    pipeline.broker.answer(0, Answer::Confirm);
    pipeline.broker.answer(1, Answer::Confirm);
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"]]).await;
    for id in ["1-1", "2-1", "3-1", "4-1"] {
        assert_eq!(pipeline.status(id).await, OutboxStatus::New, "{id}");
    }
    pipeline.broker.answer(2, Answer::Confirm);
    drop(held);
    eventually(async || pipeline.is_sent(&["1-1", "2-1", "3-1", "4-1", "5-1"]).await).await;
    assert_eq!(pipeline.broker.windows().len(), 3, "each event is published once");
}

#[tokio::test(start_paused = true)]
async fn event_of_an_aggregate_with_an_event_in_flight_waits_until_that_one_is_settled() {
    let pipeline = Pipeline::publishing(&[(1, 1), (2, 1), (1, 2), (3, 1)]).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1"]]).await;
    pipeline.broker.answer(1, Answer::Confirm);
    eventually(async || pipeline.is_sent(&["3-1"]).await).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1"]]).await;
    pipeline.broker.answer(0, Answer::Confirm);
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1"], &["1-2"]]).await;
    assert!(pipeline.is_sent(&["1-1", "2-1"]).await);
}

#[tokio::test(start_paused = true)]
async fn failed_event_holds_back_the_later_events_of_its_aggregate_and_no_other_window() {
    let pipeline = Pipeline::publishing(&[(1, 1), (2, 1), (1, 2), (3, 1), (4, 1)]).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1"]]).await;
    pipeline.broker.answer(0, Answer::Return("1-1"));
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1"], &["4-1"]]).await;
    for window in 1..=4 {
        pipeline.broker.answer(window, Answer::Confirm);
    }
    eventually(async || pipeline.is_sent(&["1-1", "2-1", "1-2", "3-1", "4-1"]).await).await;
    let retried: [&[&str]; 5] = [&["1-1", "2-1"], &["3-1"], &["4-1"], &["1-1"], &["1-2"]];
    assert_eq!(pipeline.broker.windows(), retried);
}

#[tokio::test(start_paused = true)]
async fn results_of_both_windows_are_discarded_if_their_partitions_were_lost() {
    let pipeline = Pipeline::publishing(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"]]).await;
    let mut unit = pipeline.library.tx.begin().await.unwrap();
    for lease in pipeline.owned().await {
        let taken = unit
            .outbox()
            .acquire_partition(&RelayId::new(99, pipeline.library.outbox.topology()), &lease, 60_000)
            .await
            .unwrap();
        assert_eq!(taken, Changed::One);
    }
    unit.commit().await.unwrap();
    for window in 0..=2 {
        pipeline.broker.answer(window, Answer::Confirm);
    }
    pipeline.pass(Duration::from_secs(4)).await;
    for id in ["1-1", "2-1", "3-1", "4-1"] {
        assert_eq!(pipeline.status(id).await, OutboxStatus::New, "{id}");
    }
    assert_eq!(pipeline.status("5-1").await, OutboxStatus::New);
}

#[tokio::test(start_paused = true)]
async fn stopping_relay_settles_both_windows_and_publishes_no_other() {
    let pipeline = Pipeline::publishing(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"]]).await;
    let stop = pipeline.library.outbox.tasks().stop();
    let answer = async {
        pipeline.pass(Duration::from_secs(1)).await;
        pipeline.broker.answer(1, Answer::Confirm);
        pipeline.pass(Duration::from_secs(1)).await;
        pipeline.broker.answer(0, Answer::Confirm);
    };
    tokio::join!(stop, answer);
    assert!(pipeline.is_sent(&["1-1", "2-1", "3-1", "4-1"]).await);
    assert_eq!(pipeline.status("5-1").await, OutboxStatus::New);
    assert_eq!(pipeline.broker.windows().len(), 2);
    assert!(pipeline.owned().await.iter().all(|lease| lease.owner.is_none()), "the partitions are released");
}

#[tokio::test(start_paused = true)]
async fn stopping_relay_waits_three_seconds_for_the_confirms_of_two_windows() {
    let pipeline = Pipeline::publishing(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"]]).await;
    let begun = tokio::time::Instant::now();
    pipeline.library.outbox.tasks().stop().await;
    assert!(begun.elapsed() <= Duration::from_secs(4), "{:?}", begun.elapsed());
    for id in ["1-1", "2-1", "3-1", "4-1"] {
        assert_eq!(pipeline.status(id).await, OutboxStatus::Retry, "{id} must be published again");
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_in_one_window_the_other_one_is_settled_and_one_window_at_a_time_probes_the_broker() {
    let pipeline = Pipeline::publishing(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (1, 2)]).await;
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"]]).await;
    pipeline.broker.answer(0, Answer::Unreachable);
    pipeline.pass(Duration::from_secs(3)).await;
    assert_eq!(
        pipeline.broker.windows().len(),
        2,
        "the relay waits for the window in flight before it probes"
    );
    pipeline.broker.answer(1, Answer::Confirm);
    pipeline.assert_windows(&[&["1-1", "2-1"], &["3-1", "4-1"], &["1-1", "2-1"]]).await;
    assert!(pipeline.is_sent(&["3-1", "4-1"]).await);
    pipeline.broker.answer(2, Answer::Unreachable);
    eventually(async || pipeline.broker.windows().len() == 4).await;
    pipeline.pass(Duration::from_secs(3)).await;
    assert_eq!(pipeline.broker.windows().len(), 4, "one window at a time probes the broker");
    for window in 3..=6 {
        pipeline.broker.answer(window, Answer::Confirm);
    }
    eventually(async || pipeline.is_sent(&["1-1", "2-1", "5-1", "6-1", "1-2"]).await).await;
    let published = pipeline.broker.windows().concat();
    let position = |id: &str| published.iter().rposition(|published| published == id).unwrap();
    assert!(position("1-1") < position("1-2"), "{published:?}");
    let row = pipeline.library.row("1-1").await;
    assert_eq!((row.event_id, row.retry_count), (event_id("1-1"), 0), "an outage is no attempt");
}

/// Each commit of the relay in turn has the fault: those of its leases, and those that settle one of the windows in flight.
#[tokio::test(start_paused = true)]
async fn failed_or_unknown_commit_loses_no_event_and_keeps_the_order() {
    for fault in [StoreFault::Unavailable, StoreFault::CommitLost, StoreFault::ReplyLost] {
        for commits in 0.. {
            let mut faulty = None;
            let store = |inner: &Arc<OutboxStore>| {
                let store = FaultyStore::new(Arc::clone(inner), StoreCall::Commit, commits, fault);
                Arc::clone(faulty.insert(Arc::new(store))) as Arc<_>
            };
            let pipeline =
                Pipeline::publishing_on(store, &[(1, 1), (2, 1), (3, 1), (4, 1), (1, 2), (4, 2)]).await;
            eventually(async || pipeline.broker.windows().len() >= 2).await;
            for window in 0..20 {
                pipeline.broker.answer(window, Answer::Confirm);
            }
            eventually(async || pipeline.is_sent(&["1-1", "2-1", "3-1", "4-1", "1-2", "4-2"]).await).await;
            let published = pipeline.broker.windows().concat();
            let is = |id: &'static str| move |published: &String| published == id;
            for (earlier, later) in [("1-1", "1-2"), ("4-1", "4-2")] {
                let [last, first] =
                    [published.iter().rposition(is(earlier)), published.iter().position(is(later))];
                assert!(last < first, "{fault:?} of commit {commits}: {published:?}");
            }
            if !faulty.unwrap().has_failed() {
                assert!(commits > 2, "no window was settled");
                break;
            }
        }
    }
}
