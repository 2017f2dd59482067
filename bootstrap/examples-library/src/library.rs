//! Example service on handover's crates: a lending library with its own tables, two event types and a consumer. handover
//! provides the outbox, the relay, ordering, exactly-once effects, dead letters, and webhooks: every event goes to the
//! endpoints that asked for its type.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{AggregateRef, EventDescription, EventType, OutboxStatus, TenantId};
use handover_outbox::consumers::{Applied, Bound, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use handover_outbox::webhooks::Offer;
use handover_outbox::{
    ConsumerSettings, EventSpec, Outbox, RelaySettings, Transactor, WakeupNotifier, event_id, runtime,
    with_tx,
};
use handover_runtime::settings::{DatabaseChoice, WebhookConfig};
use handover_runtime::stores::transactor;
use handover_runtime::webhooks::webhooks;
use handover_sql::{DatabaseBroker, Session, SqlStore, SqliteOptions, values};
use handover_system::SystemClock;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(serde::Serialize, handover_events::Event)]
#[serde(rename_all = "camelCase")]
#[event(
    name = "BOOK_LENT",
    aggregate = "Book",
    routing_key = "book.lent",
    summary = "A reader borrowed a book."
)]
struct BookLent {
    #[event(key, visible)]
    book_id: i64,
    reader: String,
}

#[derive(serde::Serialize, handover_events::Event)]
#[serde(rename_all = "camelCase")]
#[event(
    name = "BOOK_RETURNED",
    aggregate = "Book",
    routing_key = "book.returned",
    summary = "A reader returned a book."
)]
struct BookReturned {
    #[event(key, visible)]
    book_id: i64,
    reader: String,
}

const LEND: &str = "UPDATE books SET reader = ?, version = version + 1 WHERE id = ? AND reader IS NULL";
const RETURN: &str = "UPDATE books SET reader = NULL, version = version + 1 WHERE reader = ? AND id = ?";

async fn lend(library: &Library, book: i64, reader: &'static str) -> Result<bool, StoreError> {
    let event = BookLent { book_id: book, reader: reader.to_owned() };
    change(library, LEND, book, reader, &event).await
}

async fn give_back(library: &Library, book: i64, reader: &'static str) -> Result<bool, StoreError> {
    let event = BookReturned { book_id: book, reader: reader.to_owned() };
    change(library, RETURN, book, reader, &event).await
}

/// The command: changes the book's row and appends the event in one transaction. `false` if the row refuses the change.
async fn change<E: EventType>(
    library: &Library,
    update: &'static str,
    book: i64,
    reader: &'static str,
    event: &E,
) -> Result<bool, StoreError> {
    // Ids are chosen before the first attempt, so that a repeated attempt appends no second event.
    let event_id = event_id(&library.tx);
    let now = library.outbox.now();
    let payload = serde_json::to_string(event).map_err(|error| StoreError::Backend(Box::new(error)))?;
    with_tx(&library.tx, (event_id, payload), move |unit, (event_id, payload), attempt| {
        Box::pin(async move {
            let done = unit.outbox().outbox_by_event(std::slice::from_ref(event_id)).await?;
            if attempt.may_be_committed() && !done.is_empty() {
                return Ok(true);
            }
            if unit.execute(update, values![reader, book]).await? == 0 {
                return Ok(false);
            }
            let rows = unit.fetch("SELECT version FROM books WHERE id = ?", values![book]).await?;
            let event = NewEvent {
                event_id: event_id.clone(),
                event_type: E::NAME.to_owned(),
                aggregate: AggregateRef {
                    tenant: TenantId::DEFAULT,
                    kind: E::AGGREGATE.to_owned(),
                    id: book.into(),
                },
                aggregate_seq: Some(rows.first().map_or(Ok(0), |row| row.int("version"))?),
                payload: payload.clone(),
                metadata: EventMetadata::default(),
                occurred_at: now,
                max_retry_count: 3,
                idle_consumers: IdleConsumers::default(),
                routing_key: Some(E::ROUTING_KEY.to_owned()),
                due: None,
            };
            unit.outbox().append(&[event]).await?;
            Ok(true)
        })
    })
    .await
}

/// The consumer. Its effect is committed in the same transaction as the consume-log record, so it is applied exactly
/// once.
struct Reminders;

#[async_trait]
impl Handler<Session> for Reminders {
    fn name(&self) -> &str {
        "reminders"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(&self, unit: &mut Session, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        for event in events {
            let lent: BookLent = event.payload()?;
            let remind = "INSERT INTO reminders (book, reader) VALUES (?, ?)";
            unit.execute(remind, values![lent.book_id, lent.reader]).await?;
        }
        Ok(events.iter().map(|_| Applied::result("reminder noted")).collect())
    }
}

struct Library {
    outbox: Outbox,
    tx: Transactor<Session, Session>,
    consumers: Vec<Bound>,
    wake: WakeupNotifier,
}

/// Wires a store, a broker on the same database, the example's own tables, event types and consumers.
async fn library(file: &Path) -> Result<Library, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let wake = WakeupNotifier::default();
    let store = SqlStore::open_sqlite(&SqliteOptions::file(file), clock.clone(), wake.clone()).await?;
    store.migrate().await?;
    let mut unit = store.begin().await?;
    for table in [
        "CREATE TABLE books (id INTEGER PRIMARY KEY, reader TEXT, version INTEGER NOT NULL)",
        "CREATE TABLE reminders (book INTEGER NOT NULL, reader TEXT NOT NULL)",
        "INSERT INTO books (id, version) VALUES (1, 0), (2, 0), (3, 0)",
    ] {
        unit.execute(table, values![]).await?;
    }
    unit.commit().await?;
    let broker = Arc::new(DatabaseBroker::new(&store));
    let tx = transactor(Arc::new(store), &clock)?;
    let (outbox, consumers) = outbox(&tx, broker);
    let consumers = consumers.iter().map(|consumer| consumer.bind(tx.store())).collect();
    Ok(Library { outbox, tx, consumers, wake })
}

pub(crate) fn topology() -> Topology {
    Topology::new("library.events", "library.dead-letters", "library.dead")
}

/// The event types that endpoints can ask for.
pub(crate) fn offer() -> Offer {
    Offer::of_events([EventDescription::of::<BookLent>(), EventDescription::of::<BookReturned>()])
}

/// The outbox with the library's event types and consumers, and the consumers.
pub(crate) fn outbox(
    tx: &Transactor<Session, Session>,
    broker: Arc<dyn Broker>,
) -> (Outbox, [Subscriber<Session>; 2]) {
    let reminders = Subscriber::new("library.reminders", Arc::new(Reminders));
    let outbox = Outbox::new(tx.outbox(), broker, topology())
        .with_event(EventSpec::of::<BookLent>())
        .with_event(EventSpec::of::<BookReturned>())
        .with_consumer(&reminders, &["book.lent"]);
    let (outbox, webhooks) = outbox.with_webhooks("library.webhooks", &Arc::new(offer()));
    (outbox, [reminders, webhooks])
}

async fn reminders(library: &Library) -> Result<Vec<String>, StoreError> {
    let mut view = library.tx.view().await?;
    let rows = view.fetch("SELECT book, reader FROM reminders ORDER BY book", values![]).await?;
    rows.iter().map(|row| Ok(format!("book {} to {}", row.int("book")?, row.text("reader")?))).collect()
}

/// Waits until the relay has sent every event, the consumers have settled every message, and no webhook is left to send.
async fn settled(outbox: &Outbox, consumptions: usize) -> Result<(), Error> {
    for _ in 0..1_000 {
        let mut view = outbox.view().await?;
        let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await?;
        let ids: Vec<_> = rows.iter().map(|row| row.event_id.clone()).collect();
        let consumed = view.outbox_view().consumed_of(&ids).await?.len();
        let unsent = view.outbox_view().webhook_counts(outbox.now()).await?.pending;
        drop(view);
        let sent = rows.iter().all(|row| row.status == OutboxStatus::Sent);
        let queues = outbox.broker.queues().await?;
        let idle = queues.iter().all(|queue| queue.ready + queue.unacked == 0) && unsent == 0;
        if sent && consumed == consumptions && idle {
            return Ok(());
        }
        outbox.sleep(Duration::from_millis(10)).await;
    }
    Err("the events were not consumed and sent within ten seconds".into())
}

/// Lends three books, tries to lend one of them twice, takes it back, delivers all events a second time, and returns the
/// reminders.
pub(crate) async fn run(database: &Path, config: &WebhookConfig) -> Result<Vec<String>, Error> {
    let library = library(database).await?;
    let outbox = &library.outbox;
    runtime::prepare(outbox).await?;
    runtime::start_relay(outbox, &library.wake, &RelaySettings::default());
    runtime::start_consumers(outbox, library.consumers.clone(), &ConsumerSettings::default());
    if let Some(webhooks) = webhooks(outbox, offer(), config, &DatabaseChoice::File(database.to_owned()))? {
        webhooks.dispatcher(config.settings.clone()).start();
    }

    for (book, reader) in [(1, "ann"), (2, "ben"), (3, "ann"), (1, "ben")] {
        let lent = lend(&library, book, reader).await?;
        println!("book {book} to {reader}: {}", if lent { "lent" } else { "already lent" });
    }
    if give_back(&library, 1, "ann").await? {
        println!("book 1 from ann: returned");
    }
    // Three reminders; webhooks of four events.
    settled(outbox, 3 + 4).await?;

    // Deliver every event again, as a broker or an operator may do at any time.
    let rows = outbox.view().await?.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await?;
    let now = outbox.now();
    let again: Vec<Redrive> =
        rows.into_iter().map(|row| Redrive { event_id: row.event_id, due: now }).collect();
    let mut unit = library.tx.begin().await?;
    let redriven = unit.outbox().redrive(&again, now).await?.len();
    unit.commit().await?;
    settled(outbox, 3 + 4).await?;

    let reminders = reminders(&library).await?;
    println!("{redriven} events sent twice; reminders: {}", reminders.join(", "));
    outbox.tasks().stop().await;
    Ok(reminders)
}
