//! Groups of a consumer while deliveries wait: the rows of the next group are read before the group in progress is committed.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handover_events::ConsumeStatus;
use handover_memory::MemoryUnit;
use handover_outbox::OwnSettings;
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::{OutboxStore, Store, StoreError, UnitOfWork, View};
use tokio::sync::Semaphore;

use crate::library::{Library, QUEUE, eventually};
use crate::{Loans, lent, noted};

/// Records its calls. Each one needs a permit.
struct Held {
    permits: Semaphore,
    calls: Mutex<Vec<Vec<String>>>,
}

impl Held {
    fn calls(&self) -> Vec<Vec<String>> {
        self.calls.lock().unwrap().clone()
    }
}

#[async_trait]
impl Handler<MemoryUnit> for Held {
    fn name(&self) -> &str {
        "loans"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(&self, unit: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        self.calls.lock().unwrap().push(events.iter().map(|event| event.row.event_id.to_string()).collect());
        self.permits.acquire().await.unwrap().forget();
        Loans.apply(unit, events).await
    }
}

/// A store that runs one unit of work at a time.
struct SingleWriter(Arc<OutboxStore>);

#[async_trait]
impl Store for SingleWriter {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.0.begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.0.view().await
    }

    fn has_single_writer(&self) -> bool {
        true
    }
}

/// A consumer with a prefetch of four, to which these events `book-seq` are delivered, and whose first group is in progress.
async fn consuming(events: &[(i64, i64)]) -> (Library, Arc<Held>) {
    consuming_on(events, |store| store).await
}

async fn consuming_on(
    events: &[(i64, i64)],
    on: impl FnOnce(Arc<OutboxStore>) -> Arc<OutboxStore>,
) -> (Library, Arc<Held>) {
    let handler = Arc::new(Held { permits: Semaphore::new(0), calls: Mutex::default() });
    let settings = OwnSettings { prefetch: 4.try_into().ok(), ..OwnSettings::default() };
    let subscriber = Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>).with_settings(settings);
    let mut library = Library::sending([lent(), noted()]).with(&subscriber);
    library.outbox.tx = library.outbox.tx.with_store(on(Arc::clone(library.outbox.tx.store())));
    library.prepare().await;
    let event = |(book, seq): &(i64, i64)| {
        library.event(&format!("{book}-{seq}"), "BOOK_LENT", *book, *seq, r#"{"reader":3}"#)
    };
    library.commit(events.iter().map(event).collect()).await;
    for (book, seq) in events {
        library.deliver(&format!("{book}-{seq}")).await;
    }
    library.start_consumers();
    eventually(async || handler.calls().len() == 1).await;
    (library, handler)
}

#[tokio::test(start_paused = true)]
async fn group_holds_half_of_the_prefetch() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]).await;
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"], vec!["3-1", "4-1"], vec!["5-1"]]);
    assert_eq!(library.ids("LOAN_NOTED").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn group_holds_the_whole_prefetch_on_a_store_with_a_single_writer() {
    let events = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)];
    let (library, handler) = consuming_on(&events, |store| Arc::new(SingleWriter(store))).await;
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1", "3-1", "4-1"], vec!["5-1"]]);
    assert_eq!(library.ids("LOAN_NOTED").await.len(), 5);
}

/// The group was read while the event was not applied: its commit fails, and its deliveries are processed one by one.
#[tokio::test(start_paused = true)]
async fn event_that_another_process_applies_after_it_was_read_ahead_has_no_second_effect() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (3, 1), (4, 1)]).await;
    library.record("loans", "3-1", ConsumeStatus::Success).await;
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"], vec!["3-1", "4-1"], vec!["4-1"]]);
    assert_eq!(library.ids("LOAN_NOTED").await, ["1-1-noted-1", "2-1-noted-1", "4-1-noted-1"]);
    assert_eq!(library.consumed("loans", "4-1").await, Some((ConsumeStatus::Success, 1)));
}

#[tokio::test(start_paused = true)]
async fn group_with_an_aggregate_of_the_group_in_progress_is_read_after_its_commit() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (1, 2), (3, 1)]).await;
    library.record("loans", "3-1", ConsumeStatus::Success).await;
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"], vec!["1-2"]]);
    assert_eq!(library.ids("LOAN_NOTED").await, ["1-1-noted-1", "2-1-noted-1", "1-2-noted-1"]);
}

/// An event with a record can be settled at any time by the worker that has recorded it.
#[tokio::test(start_paused = true)]
async fn group_with_a_recorded_event_is_read_after_the_commit_of_the_group_in_progress() {
    let (library, handler) = consuming(&[(1, 1), (2, 1)]).await;
    let recorded = library.event("3-1", "BOOK_LENT", 3, 1, r#"{"reader":3}"#);
    let other = library.event("4-1", "BOOK_LENT", 4, 1, r#"{"reader":3}"#);
    library.commit(vec![recorded, other]).await;
    library.record("loans", "3-1", ConsumeStatus::Waiting).await;
    library.deliver("3-1").await;
    library.deliver("4-1").await;
    library.outbox.sleep(std::time::Duration::from_millis(10)).await;
    library.record("loans", "4-1", ConsumeStatus::Success).await;
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"], vec!["3-1"]]);
}
