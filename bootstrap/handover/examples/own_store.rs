//! An outbox on a store of your own, here one in memory: no database, no server.
//!
//! You see who has got book 1, what the consumer has noted in the store, and that a lending that is refused has no event.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use handover::store::ports::{StoreError, UnitOfWork as _};
use handover::store::{OwnStore, WakeupNotifier, append, with_tx};
use handover::{EnqueueError, Event, Options, Outbox, in_transaction};
use handover_memory::store::tables::Row;
use handover_memory::{MemoryBroker, MemoryStore, MemoryUnit, tables};
use handover_system::SystemClock;
use serde::{Deserialize, Serialize};

// The tables of the library. `Store` and `Unit` stand for your store and its transaction.
tables! {
    struct Library {
        loans: Loan,
        reminders: Reminder,
    }
    struct LibraryChanges;
    trait LibraryRows;
    type Lock = i64;
    type Sequences = ();
}
type Store = MemoryStore<Library>;
type Unit = MemoryUnit<Library>;

#[derive(Debug, Clone, PartialEq)]
struct Loan {
    book: i64,
    reader: String,
}

impl Row<Library> for Loan {
    type Key = i64;
    type Index = ();

    fn key(&self) -> i64 {
        self.book
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Reminder {
    event_id: String,
    text: String,
}

impl Row<Library> for Reminder {
    type Key = String;
    type Index = ();

    fn key(&self) -> String {
        self.event_id.clone()
    }
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: i64,
    reader: String,
}

/// The consumer: its effect commits in the unit of work that records the event as applied.
async fn remind(event: Event<BookLent>, unit: &mut Unit) -> handover::Result {
    let text = format!("{} brings book {} back", event.reader, event.book);
    let reminder = Reminder { event_id: event.event_id().to_owned(), text };
    unit.write(vec![], |statement| {
        statement.own.reminders.put(reminder);
        Ok(())
    })
    .await?;
    Ok(())
}

/// The command: loan and event commit together, or neither. `false`: somebody has the book.
async fn lend(outbox: &Outbox<OwnStore<Store>>, book: i64, reader: &str) -> Result<bool, EnqueueError> {
    // The id of the event is chosen before the first attempt, so that a repeated attempt appends no second event.
    let event = outbox.prepare(&BookLent { book, reader: reader.to_owned() }, Options::default())?;
    let loan = Loan { book, reader: reader.to_owned() };
    with_tx(outbox.transactor(), (loan, event), |unit, (loan, event), _| {
        Box::pin(async move {
            let is_lent = insert(unit, loan.clone()).await?;
            if is_lent {
                append(unit.outbox(), slice::from_ref(event)).await?;
            }
            Ok(is_lent)
        })
    })
    .await
}

async fn insert(unit: &mut Unit, loan: Loan) -> Result<bool, StoreError> {
    unit.write(vec![loan.book], |statement| {
        let is_free = statement.loans().get(&loan.book).is_none();
        if is_free {
            statement.own.loans.put(loan);
        }
        Ok(is_free)
    })
    .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Commits of the store wake the relay of this process.
    let wake = WakeupNotifier::default();
    let store = Arc::new(Store::new(Arc::new(SystemClock), wake.clone()));
    let outbox = Outbox::on(Arc::clone(&store))
        .wake(&wake)
        .broker(Arc::new(MemoryBroker::new(Arc::new(SystemClock))))
        .consumer("reminders", in_transaction(remind))
        .build()?;
    let running = outbox.start().await?;

    for reader in ["ann", "ben"] {
        let is_lent = lend(&outbox, 1, reader).await?;
        println!("book 1 to {reader}: {}", if is_lent { "lent" } else { "somebody has it" });
    }

    running.drain().await?; // every event is published and applied
    let reminders: BTreeMap<_, _> = store.modify_committed(|library| library.reminders.rows().clone());
    println!("{} reminder: {:?}", reminders.len(), reminders.values().map(|it| &it.text).collect::<Vec<_>>());
    running.stop(Duration::from_secs(15)).await?;
    Ok(())
}
