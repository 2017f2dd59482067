//! The number of events that wait to be published, while counting them is slow.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::*;
use handover_outbox::runtime;
use handover_outbox::wrap::{Wrapped, Wraps};

use crate::lent;
use crate::library::{Library, eventually};
use crate::measured::Measured;

const PENDING: &str = "outbox.event.pending";
const OLDEST_DUE: &str = "handover.outbox.oldest.due.seconds";

/// A store that needs 300 µs for each id of a count, and records the counts.
struct SlowStore {
    inner: Arc<dyn Store<Unit = dyn UnitOfWork, View = dyn View>>,
    counts: Arc<Mutex<Vec<Range<i64>>>>,
    newest: i64,
}

struct SlowView {
    inner: Box<dyn View>,
    counts: Arc<Mutex<Vec<Range<i64>>>>,
    newest: i64,
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
        Ok(Box::new(Wrapped(SlowView { inner, counts: Arc::clone(&self.counts), newest: self.newest })))
    }
}

impl Wraps for SlowView {
    type Inner = dyn View;

    fn inner(&mut self) -> &mut (dyn View + 'static) {
        &mut *self.inner
    }
}

impl OperatorQueriesWrapper for SlowView {
    #[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
    async fn outbox_backlog(&mut self, ids: Range<i64>, now: DateTime<Utc>) -> Result<Backlog, StoreError> {
        let read = ids.end.min(self.newest + 1) - ids.start;
        tokio::time::sleep(Duration::from_micros(300) * u32::try_from(read).unwrap_or(0)).await;
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).push(ids.clone());
        self.inner.outbox_view().outbox_backlog(ids, now).await
    }
}

impl OutboxQueriesWrapper for SlowView {}
impl HistoryQueriesWrapper for SlowView {}
impl ConsumeQueriesWrapper for SlowView {}
impl DeadLetterQueriesWrapper for SlowView {}
impl LeaseQueriesWrapper for SlowView {}
impl JobQueriesWrapper for SlowView {}
impl AuditQueriesWrapper for SlowView {}
impl MonitoringQueriesWrapper for SlowView {}
impl WebhookQueriesWrapper for SlowView {}
impl ArchiveQueriesWrapper for SlowView {}

#[tokio::test(start_paused = true)]
async fn events_are_counted_in_slices_while_a_count_is_slow() {
    let measured = Measured::default();
    let _recording = metrics::set_default_local_recorder(&measured);
    let mut library = Library::sending([lent()]);
    library.prepare().await;
    let newest = 2_500;
    library
        .commit((1..=newest).map(|n| library.event(&format!("e{n}"), "BOOK_LENT", n, 1, "{}")).collect())
        .await;
    let counts = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(library.outbox.tx.store());
    let slow = SlowStore { inner, counts: Arc::clone(&counts), newest };
    library.outbox.tx = library.outbox.tx.with_store(Arc::new(slow));
    runtime::start_gauges(&library.outbox);
    eventually(async || counts.lock().unwrap().len() == 1).await;
    library.commit(vec![library.event("one-more", "BOOK_LENT", 1, 2, "{}")]).await;
    eventually(async || measured.gauge(PENDING) == 2_501.0).await;
    let first = counts.lock().unwrap()[..3].to_vec();
    assert_eq!(first, [0..i64::MAX, 1_502..2_502, 0..1_502]);
    assert!(measured.gauge(OLDEST_DUE) > 0.0);
    library.tx.tasks().stop().await;
}
