//! An aggregate with many events: the order gate neither reads all of them for each delivery, nor lets one pass that has to wait.

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_contract::samples::{consumption, to_failed};
use handover_events::{AggregateRef, ConsumeStatus, EventId, RetryPolicy};
use handover_outbox::consumers::{Applied, Event, ExternalHandler, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::wrap::{UnitWrapper, Wrapped, Wraps};
use handover_outbox::{ConsumeOrder, OwnSettings};

use crate::lent;
use crate::library::{Library, QUEUE, eventually};

/// What the order gate read of aggregates.
#[derive(Debug, Default, Clone, Copy)]
struct Reads {
    /// Events, settled ones too, from the first position that a search covers.
    covered: usize,
    /// Unsettled events that a search returned.
    returned: usize,
    /// Units of work that were begun.
    units: usize,
}

struct ReadStore {
    inner: Arc<OutboxStore>,
    reads: Arc<Mutex<Reads>>,
}

struct Read<V: ?Sized> {
    inner: Box<V>,
    reads: Arc<Mutex<Reads>>,
}

#[async_trait]
impl Store for ReadStore {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.reads.lock().unwrap().units += 1;
        Ok(Box::new(Wrapped(Read { inner: self.inner.begin().await?, reads: Arc::clone(&self.reads) })))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        Ok(Box::new(Wrapped(Read { inner: self.inner.view().await?, reads: Arc::clone(&self.reads) })))
    }
}

impl<V: View + ?Sized> Read<V> {
    async fn searched(
        &mut self,
        aggregates: &[(AggregateRef, i64)],
        found: &[Unapplied],
    ) -> Result<(), StoreError> {
        for (aggregate, from) in aggregates {
            let mut rows = self.inner.outbox_view().outbox_about(std::slice::from_ref(aggregate)).await?;
            rows.retain(|row| row.aggregate_seq >= *from);
            self.reads.lock().unwrap().covered += rows.len();
        }
        self.reads.lock().unwrap().returned += found.len();
        Ok(())
    }
}

impl<V: View + ?Sized> Wraps for Read<V> {
    type Inner = V;

    fn inner(&mut self) -> &mut V {
        &mut self.inner
    }
}

impl<V: View + ?Sized> ConsumeQueriesWrapper for Read<V> {
    async fn unapplied(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        let found = self.inner.outbox_view().unapplied(consumer, types, after_id, aggregates).await?;
        let all: Vec<_> = aggregates.iter().map(|aggregate| (aggregate.clone(), i64::MIN)).collect();
        self.searched(&all, &found).await?;
        Ok(found)
    }

    async fn unapplied_from(
        &mut self,
        consumer: &str,
        types: &[&str],
        after_id: i64,
        aggregates: &[(AggregateRef, i64)],
        limit: u32,
    ) -> Result<Vec<Unapplied>, StoreError> {
        let view = self.inner.outbox_view();
        let found = view.unapplied_from(consumer, types, after_id, aggregates, limit).await?;
        self.searched(aggregates, &found).await?;
        Ok(found)
    }
}

impl UnitWrapper for Read<dyn UnitOfWork> {
    async fn commit(self) -> Result<(), StoreError> {
        self.inner.commit().await
    }
}

impl<V: View + ?Sized> OutboxQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> OperatorQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> HistoryQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> DeadLetterQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> LeaseQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> JobQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> AuditQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> MonitoringQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> WebhookQueriesWrapper for Read<V> {}
impl<V: View + ?Sized> ArchiveQueriesWrapper for Read<V> {}
impl OutboxRepoWrapper for Read<dyn UnitOfWork> {}
impl OperatorRepoWrapper for Read<dyn UnitOfWork> {}
impl HistoryRepoWrapper for Read<dyn UnitOfWork> {}
impl ConsumeLogWrapper for Read<dyn UnitOfWork> {}
impl DeadLetterRepoWrapper for Read<dyn UnitOfWork> {}
impl LeaseRepoWrapper for Read<dyn UnitOfWork> {}
impl LeaderRepoWrapper for Read<dyn UnitOfWork> {}
impl JobRepoWrapper for Read<dyn UnitOfWork> {}
impl AuditRepoWrapper for Read<dyn UnitOfWork> {}
impl MonitoringRepoWrapper for Read<dyn UnitOfWork> {}
impl WebhookRepoWrapper for Read<dyn UnitOfWork> {}
impl ArchiveRepoWrapper for Read<dyn UnitOfWork> {}
impl ErasureRepoWrapper for Read<dyn UnitOfWork> {}

const NAME: &str = "ledger";

/// Records the events that it applies. Fails for the event with the id in `refuses`.
#[derive(Default)]
struct Ledger {
    applied: Mutex<Vec<EventId>>,
    refuses: Mutex<Option<&'static str>>,
}

#[async_trait]
impl Handler<dyn UnitOfWork> for Ledger {
    fn name(&self) -> &str {
        NAME
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(
        &self,
        _unit: &mut (dyn UnitOfWork + 'static),
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let refuses = *self.refuses.lock().unwrap();
        if events.iter().any(|event| Some(event.row.event_id.as_str()) == refuses) {
            return Err(HandlerError::Recoverable("the account is closed".to_owned()));
        }
        self.applied.lock().unwrap().extend(events.iter().map(|event| event.row.event_id.clone()));
        Ok(events.iter().map(|_| Applied::result("booked")).collect())
    }
}

#[async_trait]
impl ExternalHandler for Ledger {
    fn name(&self) -> &str {
        NAME
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn call(&self, event: &Event) -> Result<Applied, HandlerError> {
        self.applied.lock().unwrap().push(event.row.event_id.clone());
        Ok(Applied::result("booked"))
    }
}

struct Account {
    library: Library,
    ledger: Arc<Ledger>,
    reads: Arc<Mutex<Reads>>,
}

impl Account {
    async fn opened(settings: OwnSettings) -> Account {
        Account::with(|ledger| Subscriber::new(QUEUE, ledger as Arc<dyn Handler<dyn UnitOfWork>>), settings)
            .await
    }

    async fn with(
        subscriber: impl FnOnce(Arc<Ledger>) -> Subscriber<dyn UnitOfWork>,
        settings: OwnSettings,
    ) -> Account {
        let ledger = Arc::new(Ledger::default());
        let reads = Arc::new(Mutex::default());
        let mut library = Library::sending([lent()]);
        let store = ReadStore { inner: Arc::clone(library.outbox.tx.store()), reads: Arc::clone(&reads) };
        library.outbox.tx = library.outbox.tx.with_store(Arc::new(store) as Arc<OutboxStore>);
        let subscriber = subscriber(Arc::clone(&ledger)).with_settings(settings);
        let library = library.with_outbox_consumer(&subscriber);
        library.prepare().await;
        Account { library, ledger, reads }
    }

    async fn commit(&self, positions: impl IntoIterator<Item = i64>) {
        self.library.commit(positions.into_iter().map(|seq| self.event(seq)).collect()).await;
    }

    fn event(&self, seq: i64) -> NewEvent {
        self.library.event(&format!("e-{seq}"), "BOOK_LENT", 7, seq, r#"{"reader":3}"#)
    }

    /// Replaces the records of applied events with those of failed ones.
    async fn fail(&self, positions: impl IntoIterator<Item = i64>, next_retry_time: Option<DateTime<Utc>>) {
        let failed = positions.into_iter().map(|seq| Consumption {
            expected: Expected::At(ConsumeStatus::Success, 1),
            status: ConsumeStatus::Failed,
            attempts: 1,
            next_retry_time,
            ..consumption(NAME, &self.event(seq))
        });
        let mut unit = self.library.tx.begin().await.unwrap();
        unit.outbox().record(&failed.collect::<Vec<_>>()).await.unwrap();
        unit.commit().await.unwrap();
    }

    async fn has_status(&self, seq: i64, status: ConsumeStatus) -> bool {
        self.library.consumed(NAME, &format!("e-{seq}")).await.is_some_and(|(is, _)| is == status)
    }

    async fn applies(&self, seq: i64) {
        eventually(async || {
            self.has_status(seq, ConsumeStatus::Success).await && self.library.is_quiet().await
        })
        .await;
    }

    fn applied(&self) -> Vec<String> {
        self.ledger.applied.lock().unwrap().iter().map(EventId::to_string).collect()
    }

    fn reads(&self) -> Reads {
        *self.reads.lock().unwrap()
    }
}

fn ids(positions: impl IntoIterator<Item = i64>) -> Vec<String> {
    positions.into_iter().map(|seq| format!("e-{seq}")).collect()
}

#[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn settled_events_of_an_aggregate_are_not_searched_for_each_new_one() {
    let account = Account::opened(OwnSettings::default()).await;
    account.library.start();
    for seq in 1..=300 {
        account.commit([seq]).await;
        account.applies(seq).await;
    }
    assert_eq!(account.applied(), ids(1..=300));
    // Searches of all settled events cover 45,150.
    let covered = account.reads().covered;
    assert!(covered < 30_000, "{covered} events were searched");
}

#[tokio::test(start_paused = true)]
async fn settled_events_are_not_searched_for_each_call_outside_of_the_database() {
    let external = |ledger| Subscriber::external(QUEUE, ledger as Arc<dyn ExternalHandler>);
    let account = Account::with(external, OwnSettings::default()).await;
    account.library.start();
    account.commit(1..=500).await;
    account.applies(500).await;
    let before = account.reads().covered;
    for seq in 501..=520 {
        account.commit([seq]).await;
        account.applies(seq).await;
    }
    assert_eq!(account.applied(), ids(1..=520));
    let covered = account.reads().covered - before;
    assert!(covered < 10_000, "{covered} events were searched for 20");
}

#[tokio::test(start_paused = true)]
async fn settled_events_are_not_searched_for_each_one_that_has_waited() {
    let account = Account::opened(OwnSettings::default()).await;
    account.library.start();
    account.commit(1..=500).await;
    account.applies(500).await;
    *account.ledger.refuses.lock().unwrap() = Some("e-501");
    account.commit(501..=520).await;
    eventually(async || account.has_status(520, ConsumeStatus::Waiting).await).await;
    let before = account.reads().covered;
    *account.ledger.refuses.lock().unwrap() = None;
    account.applies(520).await;
    assert_eq!(account.applied(), ids(1..=520));
    let covered = account.reads().covered - before;
    assert!(covered < 10_000, "{covered} events were searched for 20");
}

#[tokio::test(start_paused = true)]
async fn backlog_of_an_aggregate_is_not_read_whole_for_each_delivery() {
    for (order, refused) in [(ConsumeOrder::Sequence, None), (ConsumeOrder::Any, Some("e-1"))] {
        let (prefetch, pause) = (NonZeroU16::new(20), Duration::from_mins(5));
        let retry = Some(RetryPolicy::consumer(pause, pause, 5));
        let account = Account::opened(OwnSettings { prefetch, retry, order, ..OwnSettings::default() }).await;
        *account.ledger.refuses.lock().unwrap() = refused;
        account.commit(1..=2_000).await;
        account.library.start_relay();
        eventually(async || account.library.row("e-2000").await.sent_time.is_some()).await;
        account.library.start_consumers();
        let applied = 2_000 - usize::from(refused.is_some());
        eventually(async || account.applied().len() == applied).await;
        // 100 groups that read the whole backlog read 101,000 events.
        let returned = account.reads().returned;
        assert!(returned < 50_000, "{order:?}: {returned} events were read");
    }
}

/// The last but one of many events fails for a while: the events behind it wait, although the gate does not read all of them.
#[tokio::test(start_paused = true)]
async fn events_behind_a_failed_one_wait_whatever_their_number() {
    let pause = Duration::from_secs(5);
    let retry = Some(RetryPolicy::consumer(pause, pause, 5));
    let account = Account::opened(OwnSettings { retry, ..OwnSettings::default() }).await;
    account.library.start();
    account.commit(1..=200).await;
    account.applies(200).await;
    *account.ledger.refuses.lock().unwrap() = Some("e-201");
    let before = account.reads().units;
    account.commit(201..=700).await;
    eventually(async || account.has_status(700, ConsumeStatus::Waiting).await).await;
    assert_eq!(account.applied(), ids(1..=200));
    let units = account.reads().units - before;
    assert!(units < 300, "{units} units of work for 500 events");
    *account.ledger.refuses.lock().unwrap() = None;
    account.applies(700).await;
    assert_eq!(account.applied(), ids(1..=700));
}

/// Two dead letters are replayed while later events are applied: they keep their order, and so do events that come later.
#[tokio::test(start_paused = true)]
async fn replayed_events_from_before_the_mark_are_applied_in_order() {
    let account = Account::opened(OwnSettings::default()).await;
    account.library.start();
    account.commit(1..=200).await;
    account.applies(200).await;
    account.fail([5, 6], None).await;
    account.library.deliver("e-6").await;
    account.applies(6).await;
    account.commit([201]).await;
    account.applies(201).await;
    assert_eq!(account.applied()[200..], ids([5, 6, 201]));
}

/// A dead letter that is replayed is found in a while even if its delivery goes to another process.
#[tokio::test(start_paused = true)]
async fn replayed_event_from_before_the_mark_holds_back_later_ones_in_a_while() {
    let account = Account::opened(OwnSettings::default()).await;
    account.library.start();
    account.commit(1..=200).await;
    account.applies(200).await;
    account.fail([5], Some(account.library.outbox.now() + TimeDelta::minutes(1))).await;
    wait(Duration::from_secs(11)).await;
    account.commit([201]).await;
    eventually(async || account.has_status(201, ConsumeStatus::Waiting).await).await;
    assert_eq!(account.applied(), ids(1..=200));
}

/// The first events of the aggregate are not published, and hold back no later one; the event behind them does.
#[tokio::test(start_paused = true)]
async fn event_behind_many_that_are_not_waited_for_holds_back_later_ones() {
    let account = Account::opened(OwnSettings::default()).await;
    account.commit(1..=300).await;
    let mut unit = account.library.tx.begin().await.unwrap();
    let failed: Vec<_> = ids(1..=300).iter().map(|id| to_failed(id)).collect();
    unit.outbox().mark_failed(&failed, account.library.outbox.now()).await.unwrap();
    unit.commit().await.unwrap();
    *account.ledger.refuses.lock().unwrap() = Some("e-301");
    account.commit([301]).await;
    account.library.start();
    eventually(async || account.has_status(301, ConsumeStatus::Failed).await).await;
    account.commit([302]).await;
    eventually(async || account.has_status(302, ConsumeStatus::Waiting).await).await;
    *account.ledger.refuses.lock().unwrap() = None;
    account.applies(302).await;
    assert_eq!(account.applied(), ids([301, 302]));
    account.commit(303..=400).await;
    account.applies(400).await;
    let before = account.reads().covered;
    account.commit([401]).await;
    account.applies(401).await;
    let covered = account.reads().covered - before;
    assert!(covered < 200, "{covered} events were searched for one");
}
