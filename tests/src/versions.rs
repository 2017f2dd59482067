//! A rolling deployment: processes of two versions of a service share a store and a broker. Only the new version knows
//! the event type BOOK_RETURNED and binds the queue to its routing key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_contract::{eventually, within};
use handover_events::{AggregateRef, ConsumeStatus, EventId, OutboxStatus, TenantId};
use handover_memory::SeededRandom;
use handover_outbox::consumers::{Applied, Bound, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use handover_outbox::{
    ConsumerSettings, EventSpec, Outbox, RelaySettings, Tasks, Transactor, WakeupNotifier, runtime, with_tx,
};
use handover_system::SystemClock;

const QUEUE: &str = "library.loans";
const CONSUMER: &str = "loans";
const BOOKS: i64 = 4;
const ROUNDS: i64 = 15;

/// Appends a note for each event of these types. Each note has a new id, so an event that is applied twice has two notes.
struct Notes(&'static [&'static str]);

#[async_trait]
impl Handler<dyn UnitOfWork> for Notes {
    fn name(&self) -> &str {
        CONSUMER
    }

    fn event_types(&self) -> Vec<&str> {
        self.0.to_vec()
    }

    async fn apply(
        &self,
        unit: &mut (dyn UnitOfWork + 'static),
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        for Event { row, .. } in events {
            let about = unit.outbox().outbox_about(std::slice::from_ref(&row.aggregate)).await?;
            let prefix = format!("{}/", row.event_id);
            let nth = about.iter().filter(|note| note.event_id.as_str().starts_with(&prefix)).count();
            let note =
                event(&format!("{prefix}{nth}"), "LOAN_NOTED", row.aggregate.id.number(), row.aggregate_seq);
            unit.outbox().append(&[NewEvent { routing_key: Some("loan.noted".to_owned()), ..note }]).await?;
        }
        Ok(events.iter().map(|_| Applied::default()).collect())
    }
}

fn event(id: &str, event_type: &str, book: i64, seq: i64) -> NewEvent {
    NewEvent {
        event_id: id.parse().unwrap(),
        event_type: event_type.to_owned(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: book.into() },
        aggregate_seq: Some(seq),
        payload: "{}".to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: SystemClock.now(),
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Old,
    New,
}

/// A process with relay and consumer.
struct Process {
    outbox: Outbox,
    consumer: Bound,
}

impl Process {
    fn new(store: &Arc<OutboxStore>, broker: Arc<dyn Broker>, version: Version, seed: u64) -> Process {
        let random = Arc::new(SeededRandom::new(seed));
        let tx = Transactor::new(Arc::clone(store), Arc::new(SystemClock), random, Tasks::default());
        let (types, bindings): (&[&str], &[&str]) = match version {
            Version::Old => (&["BOOK_LENT"], &["book.lent"]),
            Version::New => (&["BOOK_LENT", "BOOK_RETURNED"], &["book.lent", "book.returned"]),
        };
        let subscriber = Subscriber::new(QUEUE, Arc::new(Notes(types)));
        let topology = Topology::new("library.events", "library.dead-letters", "library.dead");
        let outbox = Outbox::new(tx, broker, topology.with("library.notes", &["loan.noted"]))
            .with_event(EventSpec::new("BOOK_LENT", "book.lent"))
            .with_event(EventSpec::new("LOAN_NOTED", "loan.noted").unordered())
            .with_consumer(&subscriber, bindings);
        let outbox = match version {
            Version::Old => outbox,
            Version::New => outbox.with_event(EventSpec::new("BOOK_RETURNED", "book.returned")),
        };
        let consumer = subscriber.bind(outbox.tx.store());
        Process { outbox, consumer }
    }

    async fn started(self) -> Process {
        within("prepare", runtime::prepare(&self.outbox)).await.unwrap();
        let relay = RelaySettings {
            lease_ms: 1_500,
            scan_interval: Duration::from_millis(50),
            ..RelaySettings::default()
        };
        let consumer =
            ConsumerSettings { sweep_interval: Duration::from_millis(200), ..ConsumerSettings::default() };
        runtime::start_relay(&self.outbox, &WakeupNotifier::default(), &relay);
        runtime::start_consumers(&self.outbox, vec![self.consumer.clone()], &consumer);
        self
    }

    fn kill(&self) {
        self.outbox.tasks().kill();
    }

    /// Commits one event of each book, as a process of the new version does; of some books, it is of the new type.
    async fn write(&self, seq: i64) {
        let of_book = |book: i64| {
            let (event_type, key) = if (seq + book) % 2 == 0 {
                ("BOOK_RETURNED", "book.returned")
            } else {
                ("BOOK_LENT", "book.lent")
            };
            let event = event(&format!("{book}.{seq}"), event_type, book, seq);
            NewEvent { routing_key: Some(key.to_owned()), ..event }
        };
        let events: Vec<NewEvent> = (1..=BOOKS).map(of_book).collect();
        with_tx(&self.outbox.tx, events, |unit, events, _| {
            Box::pin(async move { unit.outbox().append(events).await })
        })
        .await
        .unwrap();
    }

    async fn rows(&self) -> Vec<OutboxRow> {
        let mut view = self.outbox.view().await.unwrap();
        view.outbox_view().outbox_page(&OutboxFilter::default(), None, 1_000).await.unwrap()
    }

    /// Waits until the consumer has left an event of the new type to another process.
    async fn has_left_an_event(&self) {
        eventually("an event of the new type is WAITING", || async {
            let filter = ConsumedFilter { status: Some(ConsumeStatus::Waiting), ..ConsumedFilter::default() };
            let mut view = self.outbox.view().await.unwrap();
            let waiting = view.outbox_view().consumed_page(&filter, None, 1_000).await.unwrap();
            waiting.iter().any(|it| it.effect.event_type == "BOOK_RETURNED").then_some(())
        })
        .await;
    }

    /// Waits until every event has a note and every row is SENT.
    async fn has_applied_all(&self) {
        eventually("every event is applied", || async {
            let rows = self.rows().await;
            let failed: Vec<_> = rows.iter().filter(|row| row.status == OutboxStatus::Failed).collect();
            assert!(failed.is_empty(), "{failed:?}");
            let all = usize::try_from(2 * BOOKS * ROUNDS).unwrap();
            (rows.len() >= all && rows.iter().all(|row| row.status == OutboxStatus::Sent)).then_some(())
        })
        .await;
    }

    /// Asserts that each event was applied once, in the order of its book, and none is a dead letter.
    async fn is_consistent(&self) {
        let mut rows = self.rows().await;
        rows.sort_by_key(|row| row.id);
        let notes = rows.iter().filter(|row| row.event_type == "LOAN_NOTED");
        let noted: Vec<&str> = notes.filter_map(|note| note.event_id.as_str().split('/').next()).collect();
        for book in 1..=BOOKS {
            let of_book: Vec<&str> =
                noted.iter().copied().filter(|id| id.starts_with(&format!("{book}."))).collect();
            let expected: Vec<String> = (1..=ROUNDS).map(|seq| format!("{book}.{seq}")).collect();
            assert_eq!(of_book, expected, "book {book}");
        }
        let ids: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
        let mut view = self.outbox.view().await.unwrap();
        let consumed = view.outbox_view().consumed_of(&ids).await.unwrap();
        let unapplied: Vec<_> =
            consumed.iter().filter(|it| it.record.status != ConsumeStatus::Success).collect();
        assert!(unapplied.is_empty(), "{unapplied:?}");
        let dead_letters =
            view.outbox_view().dead_letters_page(&DeadLetterFilter::default(), None, 10).await.unwrap();
        assert_eq!(dead_letters, []);
    }
}

/// Runs an old and a new version side by side, kills the new one, writes further events, and starts the new version
/// again. `broker` opens the broker as a process does.
pub async fn rolling_deployment(store: Arc<OutboxStore>, broker: impl Fn() -> Arc<dyn Broker>) {
    let old = Process::new(&store, broker(), Version::Old, 1).started().await;
    let new = Process::new(&store, broker(), Version::New, 2).started().await;
    for seq in 1..=ROUNDS / 3 {
        new.write(seq).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    new.kill();
    for seq in ROUNDS / 3 + 1..=ROUNDS * 2 / 3 {
        old.write(seq).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    old.has_left_an_event().await;
    let restarted = Process::new(&store, broker(), Version::New, 3).started().await;
    for seq in ROUNDS * 2 / 3 + 1..=ROUNDS {
        restarted.write(seq).await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    restarted.has_applied_all().await;
    restarted.is_consistent().await;
    within("stop", old.outbox.tasks().stop()).await;
    within("stop", restarted.outbox.tasks().stop()).await;
}
