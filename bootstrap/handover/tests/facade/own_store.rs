//! An outbox on a store of the application, here the one in memory.

use std::slice;
use std::sync::Arc;

use handover::store::ports::{OutboxFilter, OutboxStore, StoreError, UnitOfWork};
use handover::store::{OwnStore, Tasks, Transactor, WakeupNotifier, append, with_tx};
use handover::{
    ConsumeStatus, Data, EnqueueError, Enqueuer, Error, Event, HandlerError, Options, Outbox, Running,
    at_least_once, in_transaction,
};
use handover_memory::store::tables::Row;
use handover_memory::{MemoryBroker, MemoryStore, MemoryUnit, SeededRandom, tables};
use handover_system::SystemClock;
use serde::{Deserialize, Serialize};

use crate::library::{BookLent, STOP_LIMIT, TestResult};

tables! {
    struct Library {
        notes: Note,
    }
    struct LibraryChanges;
    trait LibraryRows;
    type Lock = i64;
    type Sequences = ();
}

/// The effect of an event.
#[derive(Debug, Clone, PartialEq)]
struct Note {
    number: usize,
    text: String,
}

impl Row<Library> for Note {
    type Key = usize;
    type Index = ();

    fn key(&self) -> usize {
        self.number
    }
}

type Store = MemoryStore<Library>;
type Unit = MemoryUnit<Library>;
type OwnOutbox = Outbox<OwnStore<Store>>;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "fee.due", aggregate = "account")]
struct FeeDue {
    #[event(key)]
    account: String,
}

async fn note(unit: &mut Unit, text: &str) -> Result<(), StoreError> {
    let text = text.to_owned();
    unit.write(vec![0], |statement| {
        let number = statement.notes().all().count();
        statement.own.notes.put(Note { number, text });
        Ok(())
    })
    .await
}

async fn remind(event: Event<BookLent>, unit: &mut Unit) -> handover::Result {
    note(unit, &event.reader).await?;
    match event.reader.as_str() {
        "unknown" => Err(HandlerError::permanent("no such reader")),
        _ => Ok(()),
    }
}

async fn charge(
    event: Event<BookLent>,
    unit: &mut Unit,
    outbox: Data<Enqueuer<OwnStore<Store>>>,
) -> handover::Result {
    outbox.enqueue(unit, FeeDue { account: event.reader.clone() }).await?;
    Ok(())
}

async fn book_fee(_: Event<FeeDue>, _: &mut Unit) -> handover::Result {
    Ok(())
}

fn store() -> (Arc<Store>, WakeupNotifier) {
    let wake = WakeupNotifier::default();
    (Arc::new(Store::new(Arc::new(SystemClock), wake.clone())), wake)
}

fn broker() -> Arc<MemoryBroker> {
    Arc::new(MemoryBroker::new(Arc::new(SystemClock)))
}

/// The notes in the order of their commits.
fn notes(store: &Store) -> Vec<String> {
    store.modify_committed(|library| library.notes.rows().values().map(|note| note.text.clone()).collect())
}

/// Lends a book; `fails` after the event was appended.
async fn lend(outbox: &OwnOutbox, reader: &str, fails: bool) -> Result<(), EnqueueError> {
    let event = outbox.prepare(&BookLent::to(reader), Options::default())?;
    with_tx(outbox.transactor(), event, move |unit, event, _| {
        Box::pin(async move {
            append(unit.outbox(), slice::from_ref(event)).await?;
            if fails { Err(StoreError::Backend("the book is torn".into()).into()) } else { Ok(()) }
        })
    })
    .await
}

async fn start(
    store: &Arc<Store>,
    wake: &WakeupNotifier,
) -> Result<(OwnOutbox, Running<OwnStore<Store>>), Box<dyn std::error::Error>> {
    let outbox = Outbox::on(Arc::clone(store))
        .wake(wake)
        .broker(broker())
        .consumer("reminders", in_transaction(remind))
        .consumer("fees", in_transaction(charge))
        .consumer("accounts", in_transaction(book_fee))
        .build()?;
    let running = outbox.start().await?;
    Ok((outbox, running))
}

#[tokio::test]
async fn effects_commit_with_the_unit_of_work_and_once() -> TestResult {
    let (store, wake) = store();
    let (outbox, running) = start(&store, &wake).await?;
    lend(&outbox, "ann", false).await?;
    assert!(lend(&outbox, "ben", true).await.is_err());
    lend(&outbox, "unknown", false).await?;
    lend(&outbox, "eve", false).await?;
    running.drain().await?;
    assert_eq!(notes(&store), ["ann", "eve"], "the note of a failed event is rolled back");
    let lent: Vec<Event<BookLent>> = running.enqueued().await?;
    let readers: Vec<&str> = lent.iter().map(|event| event.reader.as_str()).collect();
    assert_eq!(readers, ["ann", "unknown", "eve"], "a failed unit of work has no event");
    for event in &lent {
        running.deliver_again(event.event_id()).await?;
    }
    assert_eq!(notes(&store), ["ann", "eve"], "a duplicate has no effect");
    let due = ["ann", "unknown", "eve"].map(|account| FeeDue { account: account.to_owned() });
    running.assert_enqueued(&due).await;
    running.stop(STOP_LIMIT).await?;
    Ok(())
}

#[tokio::test]
async fn outbox_without_broker_is_refused() -> TestResult {
    let refused = Outbox::on(store().0).build().err().ok_or("not refused")?;
    assert_eq!(
        refused.to_string(),
        "the outbox is on a store of your own and has no broker: only the databases of this crate have tables for messages; \
         add `.broker(..)` to the builder"
    );
    Ok(())
}

#[tokio::test]
async fn outbox_is_started_once() -> TestResult {
    let (store, wake) = store();
    let (outbox, running) = start(&store, &wake).await?;
    assert!(matches!(outbox.start().await.err(), Some(Error::Running {})));
    running.stop(STOP_LIMIT).await?;
    let refused = outbox.start().await.err().ok_or("not refused")?;
    assert!(matches!(refused, Error::Stopped {}), "{refused}");
    // Another outbox on the same store goes on.
    let (outbox, running) = start(&store, &wake).await?;
    lend(&outbox, "ann", false).await?;
    running.drain().await?;
    assert_eq!(notes(&store), ["ann"]);
    running.stop(STOP_LIMIT).await?;
    Ok(())
}

/// The unit of work of a store that is chosen at run time.
type Work = dyn UnitOfWork;

/// Reads in the unit of work.
async fn count(event: Event<BookLent>, unit: &mut Work) -> handover::Result {
    let page = unit.outbox().outbox_page(&OutboxFilter::default(), None, 10).await?;
    let ids: Vec<&str> = page.iter().map(|row| row.event_id.as_str()).collect();
    if ids == [event.event_id()] { Ok(()) } else { Err(HandlerError::permanent(format!("{ids:?}"))) }
}

async fn call(_: Event<BookLent>) -> handover::Result {
    Ok(())
}

#[tokio::test]
async fn unit_of_work_can_be_a_trait_object() -> TestResult {
    let (store, wake) = store();
    let random = Arc::new(SeededRandom::new(7));
    let tx = Transactor::new(store, Arc::new(SystemClock), random, Tasks::default()).outbox();
    let outbox = Outbox::<OwnStore<OutboxStore>>::on_transactor(&tx)
        .wake(&wake)
        .broker(broker())
        .consumer("count", in_transaction(count))
        .consumer("call", at_least_once(call))
        .build()?;
    let running = outbox.start().await?;
    let mut unit = tx.begin().await?;
    let id = outbox.enqueue(unit.as_mut(), BookLent::to("ann")).await?;
    unit.commit().await?;
    running.drain().await?;
    for consumer in ["count", "call"] {
        running.wait_for(id.as_str(), consumer, ConsumeStatus::Success).await?;
    }
    running.stop(STOP_LIMIT).await?;
    assert!(tx.stopping().is_cancelled(), "the tasks of the transactor end with the outbox");
    Ok(())
}
