//! The relay beside a transaction that stays open in the database: a search reads the dead versions of all rows that were settled
//! meanwhile.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_contract::samples::confirmed;
use handover_events::OutboxStatus;
use handover_outbox::ports::*;
use handover_outbox::wrap::{Wrapped, Wraps};

use crate::library::{Library, eventually};
use crate::{lent, loans};

/// Ids with dead rows. No other rows have them.
const DEAD: Range<i64> = 2..10_002;

/// The event before them and the one behind them.
const FIRST: &str = "e-1";
const LAST: &str = "e-10002";
/// An event that is appended later.
const NEWER: &str = "e-10003";

/// The database ends a statement that takes longer.
const STATEMENT_LIMIT: Duration = Duration::from_secs(14);

/// A store whose searches need this time for each dead row. Records where they begin.
struct SlowStore {
    inner: Arc<OutboxStore>,
    per_dead_row: Duration,
    begins: Arc<Mutex<Vec<i64>>>,
}

struct SlowView {
    inner: Box<dyn View>,
    per_dead_row: Duration,
    begins: Arc<Mutex<Vec<i64>>>,
}

#[async_trait]
impl Store for SlowStore {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        let inner = self.inner.view().await?;
        let begins = Arc::clone(&self.begins);
        Ok(Box::new(Wrapped(SlowView { inner, per_dead_row: self.per_dead_row, begins })))
    }
}

impl SlowView {
    #[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
    async fn read(&mut self, ids: Range<i64>) -> Result<(), StoreError> {
        let dead = ids.end.min(DEAD.end) - ids.start.max(DEAD.start);
        let needed = self.per_dead_row * u32::try_from(dead).unwrap_or(0);
        tokio::time::sleep(needed.min(STATEMENT_LIMIT)).await;
        if needed > STATEMENT_LIMIT {
            return Err(StoreError::Unavailable("canceling statement due to statement timeout".into()));
        }
        Ok(())
    }
}

impl Wraps for SlowView {
    type Inner = dyn View;

    fn inner(&mut self) -> &mut (dyn View + 'static) {
        &mut *self.inner
    }
}

impl OutboxQueriesWrapper for SlowView {
    async fn outbox_due(&mut self, query: &DueQuery) -> Result<Due, StoreError> {
        self.begins.lock().unwrap().push(query.from_id);
        let due = self.inner.outbox_view().outbox_due(query).await?;
        let is_full = due.rows.len() as u64 >= u64::from(query.limit);
        let end = due.rows.last().filter(|_| is_full).map_or(i64::MAX, |row| row.id);
        self.read(query.from_id..end).await?;
        Ok(due)
    }

    async fn outbox_due_ids(&mut self, query: &DueQuery, until_id: i64) -> Result<Vec<i64>, StoreError> {
        self.read(query.from_id..until_id).await?;
        self.inner.outbox_view().outbox_due_ids(query, until_id).await
    }
}

impl OperatorQueriesWrapper for SlowView {}
impl HistoryQueriesWrapper for SlowView {}
impl ConsumeQueriesWrapper for SlowView {}
impl DeadLetterQueriesWrapper for SlowView {}
impl LeaseQueriesWrapper for SlowView {}
impl JobQueriesWrapper for SlowView {}
impl AuditQueriesWrapper for SlowView {}
impl MonitoringQueriesWrapper for SlowView {}
impl WebhookQueriesWrapper for SlowView {}
impl ArchiveQueriesWrapper for SlowView {}

impl Library {
    /// A library with one pending event before the dead rows and one behind them.
    async fn with_dead_rows() -> Library {
        let library = Library::sending([lent()]).with(&loans());
        library.prepare().await;
        library.append(1..DEAD.end + 1).await;
        assert_eq!(library.row(LAST).await.id, DEAD.end);
        let dead: Vec<String> = DEAD.map(|n| format!("e-{n}")).collect();
        library.settle(dead.iter().map(String::as_str)).await;
        library
    }

    async fn append(&self, numbers: Range<i64>) {
        let event = |n: i64| self.event(&format!("e-{n}"), "BOOK_LENT", n, 1, "{}");
        self.commit(numbers.map(event).collect()).await;
    }

    /// Marks events as sent, without a relay.
    async fn settle(&self, ids: impl Iterator<Item = &str>) {
        let sent: Vec<Confirmed> = ids.map(confirmed).collect();
        let mut unit = self.tx.begin().await.unwrap();
        unit.outbox().mark_sent(&sent.iter().collect::<Vec<_>>(), self.outbox.now()).await.unwrap();
        unit.commit().await.unwrap();
    }

    /// Starts a relay, in a process of its own, whose searches need this time for each dead row. Returns where they begin.
    fn start_slow_relay(&self, per_dead_row: Duration) -> Arc<Mutex<Vec<i64>>> {
        let mut process = self.another_process([lent()]);
        let inner = Arc::clone(process.outbox.tx.store());
        let begins = Arc::new(Mutex::default());
        let slow = SlowStore { inner, per_dead_row, begins: Arc::clone(&begins) };
        process.outbox.tx = process.outbox.tx.with_store(Arc::new(slow));
        process.start_relay();
        begins
    }

    async fn are_sent(&self, ids: &[&str]) -> bool {
        for id in ids {
            if self.row(id).await.status != OutboxStatus::Sent {
                return false;
            }
        }
        true
    }

    async fn leases(&self) -> Vec<PartitionLease> {
        self.outbox.view().await.unwrap().outbox_view().partition_leases().await.unwrap()
    }

    async fn pass(&self, time: Duration) {
        self.outbox.sleep(time).await;
    }
}

#[tokio::test(start_paused = true)]
async fn relays_keep_their_partitions_while_a_search_takes_longer_than_the_lease() {
    let library = Library::with_dead_rows().await;
    for _ in 0..2 {
        library.start_slow_relay(Duration::from_micros(800));
    }
    eventually(async || library.are_sent(&[FIRST, LAST]).await).await;
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_long_search_are_not_published_if_another_relay_owned_their_partitions_meanwhile() {
    let library = Library::with_dead_rows().await;
    let begins = library.start_slow_relay(Duration::from_micros(800));
    eventually(async || !begins.lock().unwrap().is_empty()).await;
    let other = RelayId::new(99, library.outbox.topology());
    let mut unit = library.tx.begin().await.unwrap();
    for lease in library.leases().await {
        assert_eq!(unit.outbox().acquire_partition(&other, &lease, 500).await.unwrap(), Changed::One);
    }
    unit.commit().await.unwrap();
    library.settle([FIRST, LAST].into_iter()).await;
    library.pass(Duration::from_secs(7)).await;
    assert!(library.leases().await.into_iter().all(|lease| lease.owner.is_some_and(|owner| owner != other)));
    assert_eq!(begins.lock().unwrap().len(), 1, "the search has ended already");
    library.pass(Duration::from_secs(20)).await;
    assert!(library.is_quiet().await, "an event was published again");
}

#[tokio::test(start_paused = true)]
async fn rows_are_searched_slice_by_slice_after_the_database_ended_the_search() {
    let library = Library::with_dead_rows().await;
    library.start_slow_relay(Duration::from_micros(1_500));
    library.pass(Duration::from_secs(30)).await;
    library.append(DEAD.end + 1..DEAD.end + 2).await;
    library.pass(Duration::from_secs(1)).await;
    assert!(library.are_sent(&[NEWER]).await, "new events wait for the search in slices");
    library.pass(Duration::from_secs(200)).await;
    assert!(library.are_sent(&[FIRST, LAST]).await);
}

/// As when relays of a new version are started one after the other.
#[tokio::test(start_paused = true)]
async fn relay_that_gives_partitions_to_another_one_does_not_search_everything() {
    let library = Library::with_dead_rows().await;
    let begins = library.start_slow_relay(Duration::from_micros(20));
    eventually(async || library.are_sent(&[FIRST, LAST]).await).await;
    library.pass(Duration::from_secs(2)).await;
    library.append(DEAD.end + 1..DEAD.end + 2).await;
    library.pass(Duration::from_secs(2)).await;
    library.append(DEAD.end + 2..DEAD.end + 3).await;
    library.pass(Duration::from_secs(2)).await;
    begins.lock().unwrap().clear();
    library.start_relay();
    let relays =
        async || library.leases().await.into_iter().filter_map(|lease| lease.owner).collect::<BTreeSet<_>>();
    eventually(async || relays().await.len() == 2).await;
    library.pass(Duration::from_secs(10)).await;
    let begins = begins.lock().unwrap();
    assert!(!begins.is_empty() && begins.iter().all(|id| *id > DEAD.end), "{begins:?}");
}
