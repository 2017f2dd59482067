//! A service that the crate `handover` assembles on a store of its own, of which one call fails or never ends. Then its process is
//! killed, and the next process on the same store goes on. Time is virtual.

use std::collections::BTreeSet;
use std::slice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handover::store::{OwnStore, Tasks, Transactor, WakeupNotifier, append, with_tx};
use handover::{
    Data, EnqueueError, Enqueuer, Event, EventId, Options, Outbox, at_least_once, in_transaction,
};
use handover_contract::faulty::{FaultyStore, StoreCall, StoreFault};
use handover_memory::{MemoryBroker, MemoryStore, SeededRandom, VirtualClock};
use handover_outbox::ports::{OutboxStore, UnitOfWork, outbox_of};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::store::START;

/// The unit of work of a store that is chosen at run time.
type Work = dyn UnitOfWork;
type Place = OwnStore<FaultyStore>;

/// Events of each book.
const LOANS: u32 = 3;
const BOOKS: [i64; 2] = [1, 2];
/// Time until the first process is killed.
const UNTIL_KILL: Duration = Duration::from_secs(3);

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: i64,
    number: u32,
}

/// The effect of a loan in the database: an event of the same unit of work.
#[derive(Serialize, Deserialize, Event)]
#[event(name = "reminder.sent", aggregate = "reminder")]
struct ReminderSent {
    #[event(key)]
    book: i64,
    number: u32,
}

async fn remind(event: Event<BookLent>, unit: &mut Work, outbox: Data<Enqueuer<Place>>) -> handover::Result {
    outbox.enqueue(unit, ReminderSent { book: event.book, number: event.number }).await?;
    Ok(())
}

async fn read(_: Event<ReminderSent>, _: &mut Work) -> handover::Result {
    Ok(())
}

/// Another system: the events that it got.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<BTreeSet<String>>>);

async fn call(event: Event<BookLent>, calls: Data<Calls>) -> handover::Result {
    calls.0.lock().unwrap().insert(event.event_id().to_owned());
    Ok(())
}

/// The parts that survive a process.
struct World {
    memory: MemoryStore,
    clock: Arc<VirtualClock>,
    broker: Arc<MemoryBroker>,
    calls: Calls,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(VirtualClock::new(START));
        let memory = MemoryStore::new(clock.clone(), WakeupNotifier::default());
        let broker = Arc::new(MemoryBroker::new(clock.clone()));
        World { memory, clock, broker, calls: Calls::default() }
    }

    /// A process of the service, and its store, which has the fault at one call.
    fn process(&self, of: StoreCall, after: usize, fault: StoreFault) -> (Outbox<Place>, Arc<FaultyStore>) {
        let wake = WakeupNotifier::default();
        let store = outbox_of(&Arc::new(self.memory.for_process(wake.clone())));
        let store = Arc::new(FaultyStore::new(store, of, after, fault));
        let port: Arc<OutboxStore> = store.clone();
        let random = Arc::new(SeededRandom::new(u64::try_from(after).unwrap()));
        let tx = Transactor::new(port, self.clock.clone(), random, Tasks::default());
        let outbox = Outbox::<Place>::on_transactor(&tx)
            .wake(&wake)
            .broker(Arc::clone(&self.broker))
            .data(self.calls.clone())
            .consumer("reminders", in_transaction(remind))
            .consumer("calls", at_least_once(call))
            .consumer("readers", in_transaction(read))
            .build()
            .unwrap();
        (outbox, store)
    }
}

async fn lend(outbox: &Outbox<Place>, book: i64, number: u32) -> Result<EventId, EnqueueError> {
    let event = outbox.prepare(&BookLent { book, number }, Options::default())?;
    let event_id = event.event_id.clone();
    with_tx(outbox.transactor(), event, |unit, event, _| {
        Box::pin(async move { Ok::<_, EnqueueError>(append(unit.outbox(), slice::from_ref(event)).await?) })
    })
    .await?;
    Ok(event_id)
}

/// The first process, until it is killed. Returns the events of which the commit was reported.
async fn first_process(outbox: &Outbox<Place>) -> Vec<EventId> {
    let mut committed = Vec::new();
    let working = async {
        let Ok(running) = outbox.start().await else { return };
        for number in 1..=LOANS {
            for book in BOOKS {
                committed.extend(lend(outbox, book, number).await);
            }
        }
        // An error ends the waiting: the process is killed in any case.
        let _ = running.drain().await;
    };
    // Without a time limit, a call that never ends would be waited for.
    let _ = timeout(UNTIL_KILL, working).await;
    outbox.transactor().tasks().kill();
    outbox.transactor().tasks().ended().await;
    committed
}

/// Runs both processes with a fault at one call. Returns whether there was this call.
async fn run(of: StoreCall, after: usize, fault: StoreFault) -> bool {
    let world = World::new();
    let (first, store) = world.process(of, after, fault);
    let committed = first_process(&first).await;
    let (second, _) = world.process(of, usize::MAX, fault);
    let running = second.start().await.unwrap();
    lend(&second, BOOKS[0], LOANS + 1).await.unwrap();
    running.drain().await.unwrap();

    let what = format!("{fault:?} at call {after} of {of:?}");
    let lent: Vec<Event<BookLent>> = running.enqueued().await.unwrap();
    for event in &committed {
        assert!(lent.iter().any(|lent| lent.event_id() == event.as_str()), "{what}: {event} was lost");
    }
    let reminders: Vec<Event<ReminderSent>> = running.enqueued().await.unwrap();
    let calls = world.calls.0.lock().unwrap().clone();
    for book in BOOKS {
        let of_book = lent.iter().filter(|lent| lent.book == book);
        let numbers: Vec<u32> = of_book.clone().map(|lent| lent.number).collect();
        let reminded: Vec<u32> =
            reminders.iter().filter(|sent| sent.book == book).map(|sent| sent.number).collect();
        assert_eq!(reminded, numbers, "{what}: effects of book {book}, once and in order");
        assert!(numbers.is_sorted_by(|one, next| one < next), "{what}: {numbers:?}");
        for event in of_book {
            assert!(calls.contains(event.event_id()), "{what}: {event} was not sent");
        }
    }
    running.stop(Duration::from_secs(60)).await.unwrap();
    store.has_failed()
}

/// One run for each call at which the fault can be; without `--long`, for one of `step` calls.
fn at_every_call(of: StoreCall, fault: StoreFault, step: usize) {
    let step = if handover_contract::long() { 1 } else { step };
    let mut runs = 0;
    for after in (0..).step_by(step) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        if !runtime.unwrap().block_on(run(of, after, fault)) {
            break;
        }
        runs += 1;
    }
    assert!(runs > 5, "only {runs} runs had the fault");
}

#[test]
fn effects_happen_once_if_reply_of_any_commit_is_lost() {
    at_every_call(StoreCall::Commit, StoreFault::ReplyLost, 2);
}

#[test]
fn effects_happen_once_if_any_commit_is_lost() {
    at_every_call(StoreCall::Commit, StoreFault::CommitLost, 2);
}

#[test]
fn effects_happen_once_if_any_call_never_ends() {
    at_every_call(StoreCall::Any, StoreFault::Hangs, 5);
}

#[test]
fn effects_happen_once_if_any_call_finds_no_database() {
    at_every_call(StoreCall::Any, StoreFault::Unavailable, 5);
}
