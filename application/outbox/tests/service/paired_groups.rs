//! Groups of a consumer while deliveries wait: two full groups are applied at the same time.

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

/// A consumer with a prefetch of four, to which these events `book-seq` are delivered, and whose first group is applied.
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
    eventually(async || !handler.calls().is_empty()).await;
    (library, handler)
}

/// Waits longer than any step of a group takes.
async fn nothing_else_happens(library: &Library) {
    library.outbox.sleep(std::time::Duration::from_millis(10)).await;
}

#[tokio::test(start_paused = true)]
async fn two_groups_of_half_the_prefetch_are_applied_at_the_same_time() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]).await;
    nothing_else_happens(&library).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"], vec!["3-1", "4-1"]]);
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls()[2..], [vec!["5-1"]]);
    assert_eq!(library.ids("LOAN_NOTED").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn group_holds_the_whole_prefetch_on_a_store_with_a_single_writer() {
    let events = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)];
    let (library, handler) = consuming_on(&events, |store| Arc::new(SingleWriter(store))).await;
    nothing_else_happens(&library).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1", "3-1", "4-1"]]);
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls()[1..], [vec!["5-1"]]);
    assert_eq!(library.ids("LOAN_NOTED").await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn deliveries_that_do_not_fill_a_group_wait_for_the_group_in_progress() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (3, 1)]).await;
    nothing_else_happens(&library).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"]]);
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls()[1..], [vec!["3-1"]]);
}

/// The second event of an aggregate is applied after the commit of the first one.
#[tokio::test(start_paused = true)]
async fn deliveries_of_an_aggregate_in_progress_wait_for_its_group() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (1, 2), (3, 1)]).await;
    nothing_else_happens(&library).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"], vec!["3-1"]]);
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls()[2..], [vec!["1-2"]]);
    let noted = library.ids("LOAN_NOTED").await;
    let position = |id: &str| noted.iter().position(|noted| noted == id).unwrap();
    assert_eq!(noted.len(), 4);
    assert!(position("1-1-noted-1") < position("1-2-noted-1"));
}

/// The commit of the group fails; it is repeated with what is not applied.
#[tokio::test(start_paused = true)]
async fn event_that_another_process_applies_during_its_group_has_no_second_effect() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (3, 1), (4, 1)]).await;
    eventually(async || handler.calls().len() == 2).await;
    library.record("loans", "3-1", ConsumeStatus::Success).await;
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(handler.calls(), [vec!["1-1", "2-1"], vec!["3-1", "4-1"], vec!["4-1"]]);
    let mut noted = library.ids("LOAN_NOTED").await;
    noted.sort();
    assert_eq!(noted, ["1-1-noted-1", "2-1-noted-1", "4-1-noted-1"]);
    assert_eq!(library.consumed("loans", "4-1").await, Some((ConsumeStatus::Success, 1)));
}

/// Handlers of both groups may wait for locks of each other.
#[tokio::test(start_paused = true)]
async fn after_a_slow_group_beside_another_one_groups_are_applied_one_after_the_other() {
    let (library, handler) = consuming(&[(1, 1), (2, 1), (3, 1), (4, 1)]).await;
    eventually(async || handler.calls().len() == 2).await;
    // Longer than the time limit of a group: both fail, and their deliveries are applied one by one.
    library.outbox.sleep(std::time::Duration::from_secs(9)).await;
    handler.permits.add_permits(4);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(library.ids("LOAN_NOTED").await.len(), 4);
    let before = handler.calls().len();
    let event = |book: i64| library.event(&format!("{book}-1"), "BOOK_LENT", book, 1, r#"{"reader":3}"#);
    library.commit((5..=9).map(event).collect()).await;
    library.deliver("5-1").await;
    eventually(async || handler.calls().len() > before).await;
    for book in 6..=9 {
        library.deliver(&format!("{book}-1")).await;
    }
    handler.permits.add_permits(1);
    eventually(async || handler.calls().len() > before + 1).await;
    nothing_else_happens(&library).await;
    assert_eq!(handler.calls()[before..], [vec!["5-1"], vec!["6-1", "7-1"]]);
    handler.permits.add_permits(9);
    eventually(async || library.is_quiet().await).await;
    assert_eq!(library.ids("LOAN_NOTED").await.len(), 9);
}
