//! The relay while a tenant or an event type has a backlog: events of others do not wait for it.

mod flows;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{AggregateRef, OutboxStatus};
use handover_memory::MemoryBroker;
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::*;
use handover_outbox::wrap::BrokerWrapper;
use handover_outbox::{EventSpec, RelaySettings};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::library::{Library, QUEUE, eventually};
use crate::{Loans, lent};

/// Records the windows. Each one needs a permit.
struct Recorder {
    inner: MemoryBroker,
    permits: Semaphore,
    windows: Mutex<Vec<Vec<String>>>,
    load: Mutex<Load>,
    load_calls: AtomicUsize,
}

/// Answer of the broker about the load of queues.
enum Load {
    /// That of the queues.
    Real,
    /// The same at each call: ready messages and consumers.
    Fixed(Vec<QueueLoad>),
    Refused,
}

impl Recorder {
    fn set_load(&self, of: &[(&str, u64)]) {
        let load =
            |(name, ready): &(&str, u64)| QueueLoad { name: (*name).to_owned(), ready: *ready, consumers: 1 };
        *self.load.lock().unwrap() = Load::Fixed(of.iter().map(load).collect());
    }

    fn windows(&self) -> Vec<Vec<String>> {
        self.windows.lock().unwrap().clone()
    }

    /// Lets this many windows pass, and waits until the next one waits for its permit.
    async fn pass(&self, windows: usize) {
        let before = self.windows().len();
        self.permits.add_permits(windows);
        eventually(async || self.windows().len() == before + windows).await;
    }

    fn position(&self, id: &str) -> usize {
        self.windows().concat().iter().position(|published| published == id).unwrap()
    }
}

#[async_trait]
impl BrokerWrapper for Recorder {
    fn inner(&self) -> &dyn Broker {
        &self.inner
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.permits.acquire().await.unwrap().forget();
        let ids = window.iter().map(|outgoing| outgoing.event_id().to_string()).collect();
        self.windows.lock().unwrap().push(ids);
        self.inner().publish(window).await
    }

    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        self.load_calls.fetch_add(1, Ordering::Relaxed);
        match &*self.load.lock().unwrap() {
            Load::Refused => return Err(BrokerError::Unreachable("the channel is closed".into())),
            Load::Fixed(loads) => return Ok(loads.clone()),
            Load::Real => {}
        }
        self.inner().load(queues, up_to).await
    }
}

struct Backlogged {
    library: Library,
    broker: Arc<Recorder>,
}

impl Backlogged {
    async fn new(load: Load) -> Backlogged {
        let expired = EventSpec::new("LOAN_EXPIRED", "book.late");
        let loans = Subscriber::new(QUEUE, Arc::new(Loans));
        let mut library = Library::sending([lent(), expired]).with(&loans);
        let broker = Arc::new(Recorder {
            inner: library.broker.clone(),
            permits: Semaphore::new(0),
            windows: Mutex::default(),
            load: Mutex::new(load),
            load_calls: AtomicUsize::new(0),
        });
        library.outbox.broker = Arc::clone(&broker) as Arc<_>;
        library.prepare().await;
        Backlogged { library, broker }
    }

    fn event(&self, tenant: i64, event_type: &str, book: i64, seq: i64) -> NewEvent {
        let id = format!("{tenant}-{book}-{seq}");
        let event = self.library.event(&id, event_type, book, seq, r#"{"reader":3}"#);
        let tenant = tenant.try_into().unwrap();
        NewEvent { aggregate: AggregateRef { tenant, ..event.aggregate.clone() }, ..event }
    }

    /// Appends events of tenant 1, one of each book.
    async fn append_backlog(&self, books: std::ops::RangeInclusive<i64>) {
        self.library.commit(books.map(|book| self.event(1, "BOOK_LENT", book, 1)).collect()).await;
    }

    fn start_relay(&self, batch: u32) {
        let settings = RelaySettings { batch: batch.try_into().unwrap(), ..RelaySettings::default() };
        self.library.start_relay_with(&settings);
    }

    async fn sent(&self) -> u64 {
        let mut view = self.library.outbox.view().await.unwrap();
        view.outbox_view().outbox_counts(None, i64::MAX).await.unwrap().sent
    }

    /// A subscription of the consumers' queue.
    async fn subscribe(&self, prefetch: u16) -> Box<dyn Subscription> {
        self.broker.inner.subscribe(QUEUE, prefetch.try_into().unwrap()).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_another_tenant_is_published_after_the_first_window_of_a_backlog() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.append_backlog(1..=100).await;
    backlogged.library.commit(vec![backlogged.event(2, "BOOK_LENT", 1, 1)]).await;
    backlogged.start_relay(10);
    backlogged.broker.pass(2).await;
    assert_eq!(backlogged.broker.windows()[1], ["2-1-1"]);
    backlogged.broker.permits.add_permits(100);
    eventually(async || backlogged.sent().await == 101).await;
    assert_eq!(backlogged.broker.windows().concat().len(), 101, "each event is published once");
}

#[tokio::test(start_paused = true)]
async fn event_of_another_tenant_that_is_committed_during_a_backlog_waits_for_the_windows_in_flight() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.append_backlog(1..=100).await;
    backlogged.start_relay(10);
    backlogged.broker.pass(4).await;
    backlogged.library.commit(vec![backlogged.event(2, "BOOK_LENT", 1, 1)]).await;
    backlogged.broker.pass(3).await;
    assert_eq!(backlogged.broker.windows()[6], ["2-1-1"]);
}

/// An event that was committed late has a smaller id than those that the search has read.
#[tokio::test(start_paused = true)]
async fn event_whose_transaction_commits_late_is_found_behind_a_backlog() {
    let backlogged = Backlogged::new(Load::Real).await;
    let mut late = backlogged.library.tx.begin().await.unwrap();
    late.outbox().append(&[backlogged.event(2, "BOOK_LENT", 1, 1)]).await.unwrap();
    backlogged.append_backlog(1..=100).await;
    backlogged.start_relay(10);
    backlogged.broker.pass(4).await;
    late.commit().await.unwrap();
    backlogged.broker.pass(3).await;
    assert!(backlogged.broker.windows().concat().contains(&"2-1-1".to_owned()));
}

/// The search begins again regularly, with the groups that fill the windows then, and reads all rows of the backlog.
#[tokio::test(start_paused = true)]
async fn new_event_does_not_wait_for_a_search_that_begins_again() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.append_backlog(1..=20_000).await;
    backlogged.start_relay(10);
    backlogged.broker.pass(10).await;
    backlogged.library.outbox.sleep(RelaySettings::default().scan_interval * 3 / 2).await;
    backlogged.broker.pass(2).await;
    backlogged.library.commit(vec![backlogged.event(2, "BOOK_LENT", 1, 1)]).await;
    backlogged.broker.pass(3).await;
    assert_eq!(backlogged.broker.windows()[14], ["2-1-1"]);
}

#[tokio::test(start_paused = true)]
async fn event_of_another_type_is_published_before_the_backlog_unless_an_earlier_one_of_its_aggregate_waits()
{
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.append_backlog(1..=100).await;
    let expired = |book, seq| backlogged.event(1, "LOAN_EXPIRED", book, seq);
    backlogged.library.commit(vec![expired(100, 2), expired(200, 1), expired(200, 2)]).await;
    backlogged.start_relay(10);
    backlogged.broker.permits.add_permits(100);
    eventually(async || backlogged.sent().await == 103).await;
    let position = |id| backlogged.broker.position(id);
    assert!(position("1-200-1") <= 20, "{:?}", backlogged.broker.windows());
    assert!(position("1-200-1") < position("1-200-2"), "{:?}", backlogged.broker.windows());
    assert!(position("1-200-2") <= 40, "{:?}", backlogged.broker.windows());
    assert!(position("1-100-1") < position("1-100-2"), "{:?}", backlogged.broker.windows());
    assert_eq!(backlogged.broker.windows().concat().len(), 103, "each event is published once");
}

/// The events of others take at most half of the windows.
#[tokio::test(start_paused = true)]
async fn backlog_progresses_while_other_tenants_have_events() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.append_backlog(1..=100).await;
    for tenant in 2..=60 {
        backlogged.library.commit(vec![backlogged.event(tenant, "LOAN_EXPIRED", 1, 1)]).await;
    }
    backlogged.start_relay(10);
    backlogged.broker.pass(9).await;
    let published = backlogged.broker.windows().concat();
    let of_backlog = published.iter().filter(|id| id.starts_with("1-")).count();
    assert!(of_backlog >= 40 && published.len() - of_backlog >= 15, "{published:?}");
}

#[tokio::test(start_paused = true)]
async fn full_queue_holds_back_only_the_backlog_and_only_for_a_second_without_progress() {
    let backlogged = Backlogged::new(Load::Real).await;
    // Its first delivery is never acked.
    let consumer = backlogged.subscribe(1).await;
    backlogged.append_backlog(1..=1_000).await;
    backlogged.broker.permits.add_permits(1_000);
    backlogged.start_relay(200);
    backlogged.library.outbox.sleep(Duration::from_millis(500)).await;
    assert_eq!(backlogged.sent().await, 200);
    backlogged.library.commit(vec![backlogged.event(2, "BOOK_LENT", 1, 1)]).await;
    backlogged.library.outbox.sleep(Duration::from_millis(1)).await;
    assert_eq!(backlogged.library.row("2-1-1").await.status, OutboxStatus::Sent);
    assert_eq!(backlogged.sent().await, 201);
    backlogged.library.outbox.sleep(Duration::from_secs(1)).await;
    assert_eq!(backlogged.sent().await, 1_001);
    drop(consumer);
}

#[tokio::test(start_paused = true)]
async fn messages_in_flight_count_as_messages_in_the_queue() {
    let backlogged = Backlogged::new(Load::Real).await;
    let consumer = backlogged.subscribe(1).await;
    backlogged.append_backlog(1..=1_000).await;
    backlogged.start_relay(200);
    backlogged.library.outbox.sleep(Duration::from_millis(500)).await;
    backlogged.broker.permits.add_permits(1_000);
    backlogged.library.outbox.sleep(Duration::from_millis(500)).await;
    assert_eq!(backlogged.sent().await, 200);
    drop(consumer);
}

#[tokio::test(start_paused = true)]
async fn backlog_is_published_at_once_if_nobody_consumes_or_the_load_is_unknown() {
    for refuses_load in [false, true] {
        let load = if refuses_load { Load::Refused } else { Load::Real };
        let backlogged = Backlogged::new(load).await;
        let consumer = if refuses_load { Some(backlogged.subscribe(1).await) } else { None };
        backlogged.append_backlog(1..=1_000).await;
        backlogged.broker.permits.add_permits(1_000);
        let begun = Instant::now();
        backlogged.start_relay(200);
        eventually(async || backlogged.sent().await == 1_000).await;
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        drop(consumer);
    }
}

#[tokio::test(start_paused = true)]
async fn queue_stays_short_and_the_consumer_busy_while_a_backlog_waits() {
    let backlogged = Backlogged::new(Load::Real).await;
    let consumer = backlogged.subscribe(20).await;
    backlogged.append_backlog(1..=2_000).await;
    backlogged.broker.permits.add_permits(10_000);
    let begun = Instant::now();
    backlogged.start_relay(200);
    let mut consumed = 0_usize;
    let mut committed_after = None;
    let mut found_after = None;
    while consumed < 2_001 {
        let deliveries = consumer.next().await.unwrap();
        consumed += deliveries.len();
        let is_other =
            |delivery: &Delivery| delivery.message.headers.get("tenantId").is_some_and(|of| of == "2");
        if deliveries.iter().any(is_other) {
            found_after = Some(consumed);
        }
        // 1 ms per message.
        backlogged.library.outbox.sleep(Duration::from_millis(deliveries.len() as u64)).await;
        if consumed >= 1_000 && committed_after.is_none() {
            committed_after = Some(consumed);
            backlogged.library.commit(vec![backlogged.event(2, "BOOK_LENT", 1, 1)]).await;
        }
        let tags: Vec<_> = deliveries.iter().map(|delivery| delivery.tag).collect();
        consumer.ack(&tags).await.unwrap();
    }
    let behind = found_after.unwrap() - committed_after.unwrap();
    assert!(behind <= 150, "the event of another tenant is behind {behind} messages");
    // The consumer needs 2 s.
    assert!(begun.elapsed() < Duration::from_millis(2_300), "{:?}", begun.elapsed());
    assert_eq!(backlogged.library.row("2-1-1").await.status, OutboxStatus::Sent);
}

/// A backlog of which one window is published while both queues are full.
async fn held_back() -> Backlogged {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.append_backlog(1..=1_000).await;
    backlogged.broker.permits.add_permits(1_000);
    backlogged.broker.set_load(&[("fast", 100), ("slow", 100)]);
    backlogged.start_relay(200);
    backlogged.library.outbox.sleep(Duration::from_millis(100)).await;
    assert_eq!(backlogged.sent().await, 200);
    backlogged
}

#[tokio::test(start_paused = true)]
async fn much_slower_queue_does_not_hold_back_the_backlog_once_a_faster_one_has_room() {
    let backlogged = held_back().await;
    for (fast, slow, is_held) in [(60, 95, true), (20, 90, false)] {
        backlogged.broker.set_load(&[("fast", fast), ("slow", slow)]);
        backlogged.library.outbox.sleep(Duration::from_millis(100)).await;
        assert_eq!(backlogged.sent().await == 200, is_held, "{fast} and {slow} ready messages");
    }
}

#[tokio::test(start_paused = true)]
async fn slightly_slower_queue_holds_back_the_backlog_until_it_has_room() {
    let backlogged = held_back().await;
    for (fast, slow, is_held) in [(60, 80, true), (0, 60, true), (0, 20, false)] {
        backlogged.broker.set_load(&[("fast", fast), ("slow", slow)]);
        backlogged.library.outbox.sleep(Duration::from_millis(100)).await;
        assert_eq!(backlogged.sent().await == 200, is_held, "{fast} and {slow} ready messages");
    }
}
/// The messages in flight would fill a queue that is empty.
#[tokio::test(start_paused = true)]
async fn backlog_progresses_while_windows_of_others_are_always_in_flight() {
    let backlogged = Backlogged::new(Load::Real).await;
    backlogged.broker.set_load(&[("queue", 0)]);
    backlogged.append_backlog(1..=300).await;
    backlogged.start_relay(200);
    for step in 1..=100 {
        let tenants = step * 40..step * 40 + 40;
        let others = tenants.map(|tenant| backlogged.event(tenant, "LOAN_EXPIRED", 1, 1));
        backlogged.library.commit(others.collect()).await;
        if step > 1 {
            backlogged.broker.permits.add_permits(1);
        }
        backlogged.library.outbox.sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(backlogged.library.row("1-300-1").await.status, OutboxStatus::Sent);
}
