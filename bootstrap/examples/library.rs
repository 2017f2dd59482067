//! A lending library on handover's crates: own tables, own event type, own consumer; the outbox, the relay, the order of
//! effects, exactly-once and the dead letters are ours. `cargo run --example library`

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_application::ports::*;
use handover_application::service::{self, Roles};
use handover_application::{App, Extensions, Marketplace, Rules, Settings};
use handover_domain::PointsRules;
use handover_events::{AggregateRef, OutboxStatus, TenantId};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::{EventSpec, Tasks, Transactor, TxPolicy, Wake, with_tx};
use handover_sql::{DatabaseBroker, SqlStore, SqliteOptions, Statements};
use handover_system::{OsChance, SystemClock};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The command: the book's own row and the event that announces it are one transaction.
async fn lend(app: &App, book: i64, reader: &'static str) -> Result<bool, StoreError> {
    // Chosen before the first attempt, so that repeating the unit is harmless.
    let (event_id, now) = (app.ids.event(), app.now());
    with_tx(&app.tx, move |unit, attempt| {
        let event_id = event_id.clone();
        Box::pin(async move {
            let done = unit.outbox().outbox_by_event(std::slice::from_ref(&event_id)).await?;
            if attempt.may_have_happened() && !done.is_empty() {
                return Ok(true);
            }
            let mut own = Statements::of(unit)?;
            let lend = "UPDATE books SET reader = ?, version = version + 1 WHERE id = ? AND reader IS NULL";
            if own.execute(lend, vec![reader.into(), book.into()]).await? == 0 {
                return Ok(false);
            }
            let rows = own.fetch("SELECT version FROM books WHERE id = ?", vec![book.into()]).await?;
            let event = NewEvent {
                event_id,
                event_type: "BOOK_LENT".to_owned(),
                aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: book },
                aggregate_seq: rows.first().map_or(Ok(0), |row| row.int("version"))?,
                payload: serde_json::json!({ "bookId": book, "reader": reader }).to_string(),
                metadata: EventMetadata::default(),
                occurred_at: now,
                max_retry_count: 3,
            };
            unit.outbox().append(&[event]).await?;
            Ok(true)
        })
    })
    .await
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookLent {
    book_id: i64,
    reader: String,
}

/// The consumer: its effect is committed together with the note that the event was consumed, so it happens once.
struct Reminders;

#[async_trait]
impl Handler<Work> for Reminders {
    fn name(&self) -> &'static str {
        "reminders"
    }

    fn takes(&self) -> &'static [&'static str] {
        &["BOOK_LENT"]
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let mut own = Statements::of(unit)?;
        for event in events {
            let lent: BookLent = event.payload()?;
            let remind = "INSERT INTO reminders (book, reader) VALUES (?, ?)";
            own.execute(remind, vec![lent.book_id.into(), lent.reader.into()]).await?;
        }
        Ok(events.iter().map(|_| Applied::result("reminder noted")).collect())
    }
}

/// The wiring: a store, a broker on the same database, and what is our own.
async fn library(file: &std::path::Path) -> Result<(App, Wake), Error> {
    let (clock, wake) = (Arc::new(SystemClock), Wake::default());
    let store = SqlStore::open_sqlite(&SqliteOptions::file(file), clock.clone(), wake.clone()).await?;
    store.migrate().await?;
    let mut unit = store.begin().await?;
    let mut own = Statements::of(unit.as_mut())?;
    for table in [
        "CREATE TABLE books (id INTEGER PRIMARY KEY, reader TEXT, version INTEGER NOT NULL)",
        "CREATE TABLE reminders (book INTEGER NOT NULL, reader TEXT NOT NULL)",
        "INSERT INTO books (id, version) VALUES (1, 0), (2, 0), (3, 0)",
    ] {
        own.execute(table, Vec::new()).await?;
    }
    unit.commit().await?;
    let broker = Arc::new(DatabaseBroker::new(&store));
    let tx = Transactor {
        store: Arc::new(store),
        tasks: Tasks::default(),
        clock,
        chance: Arc::new(OsChance::seeded()?),
        policy: TxPolicy::default(),
    };
    let reminders = Subscriber { queue: "library.reminders.queue", handler: Arc::new(Reminders) };
    let own = Extensions::new(Marketplace::Absent)
        .event(EventSpec::new("BOOK_LENT", "book.lent"))
        .consumer(reminders, &["book.lent"]);
    let (pending_timeout, on_failed) = (Duration::from_secs(900), OnFailed::Continue);
    let rules = Rules { pending_timeout, max_retry_count: 3, on_failed, points: PointsRules::default() };
    Ok((App::new(tx, broker, rules).extended(own), wake))
}

async fn reminders(app: &App) -> Result<Vec<String>, StoreError> {
    let mut unit = app.tx.store.begin().await?;
    let mut own = Statements::of(unit.as_mut())?;
    let rows = own.fetch("SELECT book, reader FROM reminders ORDER BY book", Vec::new()).await?;
    rows.iter().map(|row| Ok(format!("book {} to {}", row.int("book")?, row.text("reader")?))).collect()
}

/// Waits until the relay has sent every event and the consumer has settled every delivery.
async fn settled(app: &App, events: usize) -> Result<(), Error> {
    for _ in 0..1_000 {
        let mut view = app.view().await?;
        let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await?;
        let ids: Vec<_> = rows.iter().map(|row| row.event_id.clone()).collect();
        let consumed = view.outbox_view().consumed_of(&ids).await?.len();
        drop(view);
        let sent = rows.iter().all(|row| row.status == OutboxStatus::Sent);
        let queues = app.outbox.broker.queues().await?;
        if sent && consumed == events && queues.iter().all(|queue| queue.ready + queue.unacked == 0) {
            return Ok(());
        }
        app.tx.clock.sleep(Duration::from_millis(10)).await;
    }
    Err("the events did not arrive within ten seconds".into())
}

/// Lends three books, one of them twice, delivers everything a second time, and looks at what it left.
pub(crate) async fn run() -> Result<Vec<String>, Error> {
    let folder = tempfile::tempdir()?;
    let (app, wake) = library(&folder.path().join("library.db")).await?;
    service::prepare(&app).await?;
    service::start(&app, &wake, Roles::ALL, &Settings::default());

    for (book, reader) in [(1, "ann"), (2, "ben"), (3, "ann"), (1, "ben")] {
        let lent = lend(&app, book, reader).await?;
        println!("book {book} to {reader}: {}", if lent { "lent" } else { "somebody has it" });
    }
    settled(&app, 3).await?;

    // Every event once more, as a broker or an operator may do at any time.
    let rows = app.view().await?.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await?;
    let now = app.now();
    let again: Vec<Redrive> =
        rows.into_iter().map(|row| Redrive { event_id: row.event_id, due: now }).collect();
    let mut unit = app.tx.store.begin().await?;
    let sent_again = unit.outbox().redrive(&again, now).await?.len();
    unit.commit().await?;
    settled(&app, 3).await?;

    let reminders = reminders(&app).await?;
    println!("{sent_again} events sent twice; reminders: {}", reminders.join(", "));
    app.tx.tasks.stop().await;
    Ok(reminders)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    match run().await?.len() {
        3 => Ok(()),
        other => Err(format!("three books were lent, and {other} reminders are there").into()),
    }
}
