//! A store that keeps every promise but one: which, and how its units begin and end. The files beside this one break
//! the promises of the ports.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use crate::rigs::MemoryStoreRig;
use async_trait::async_trait;
use chrono::TimeDelta;
use handover_contract::store::StoreRig;
use handover_events::{EventId, Partition};
use handover_outbox::Wake;
use handover_outbox::ports::{NewEvent, OutboxStore, Store, StoreError, outbox_of};
use handover_outbox::wrap::{UnitWrapper, Wrapped, Wraps};
use marketplace::ports::{MarketStore, MarketView, Work};
use marketplace_contract::store::MarketRig;

/// The promise that is broken; `None` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    EventsAreAppendedAfterTheCommit,
    AppendKeepsTheFirstHundredOnly,
    AppendIgnoresCase,
    AppendReformatsPayloads,
    RetriesAreCutToMilliseconds,
    InsertIgnoresTakenIds,
    SecondPaymentInProcessingIsIgnored,
    TitlesAreTrimmed,
    OrdersLeakToOtherTenants,
    PagesRepeatTheirLastRow,
    OverdueLeavesOutTheDeadline,
    UpdatesIgnoreTheVersion,
    DueIgnoresHeldRows,
    DueCountsHeldRowsAgainstTheLimit,
    NextDueIsNotAfterNow,
    SentMovesFailedRows,
    TheFenceSaysYes,
    RecordIgnoresWhatIsExpected,
    UnappliedForgetsFailed,
    EffectsAreDeduplicated,
    ReleasesThatComeFirstAreForgotten,
    NotificationsAreDeduplicated,
    NotificationsLeakToOtherTenants,
    CreditIsCountedOncePerEvent,
    CreditIsCountedFromAnOldRead,
    CreditLeaksToOtherTenants,
    ScoresHaveNoUpperLimit,
    IdBlocksOverlap,
    IdBlocksAreNotRaised,
    TakenIdsAreNotSeen,
    ForgottenRelaysLiveOn,
    EndedLeasesAreNotRenewed,
    CommitReportsSuccessAfterAFailure,
    CommitRingsNobody,
    DroppedUnitsCommit,
    ProductsAreWrittenOutsideTheUnit,
    ACutBeginSwallowsTheNextUnit,
    PaymentsComeByTime,
    RowsAboutAggregatesComeById,
    BlockedLeaksToOtherTenants,
    BlockedCountsEverythingPending,
    CountsAreOfAllTenants,
    RedriveMovesNewRows,
    RedriveKeepsTheAttempts,
    RedriveTellsOfRowsThatDidNotMove,
    RedrivesAndReleasesRingNobody,
    HistoryComesByTime,
    HistoryIsDeduplicated,
    HistoryIsWrittenOutsideTheUnit,
    ReleaseReachesOtherTenants,
    LogPagesIgnoreTheTenant,
    RowsOfEventsComeByConsumer,
    DeadLetterPagesIgnoreTheStatus,
    DeadLettersOfAKeyAreOfOneQueue,
    ParkLeavesWhatIsBeingReplayed,
    ParkRefusesNul,
    LettersAreParkedOutsideTheUnit,
    DecideIgnoresWhereItStands,
    DecideForgetsTheNote,
    AuditLeaksToOtherTenants,
    AuditShowsLooksAmongChanges,
    AuditIsWrittenOutsideTheUnit,
    TakenOperationKeysAreIgnored,
    OperationsLeakToOtherTenants,
    UnbalancedPostingsAreIgnored,
    BalancesAreLockedTooLate,
    NegativeBalancesAreIgnored,
    BalancesLeakToOtherTenants,
    FrozenPagesBeginAgain,
    HoldsAreWrittenOverOthers,
    SecondRefundsAreIgnored,
    RefundsAreDueTooLate,
    CouponsExpireTooLate,
    ChangedOrdersLeakToOtherTenants,
    DriftIsNotNoticed,
    TakenScopesAreIgnored,
    RequestsAdvanceByAnyToken,
    AnsweredRequestsAreDropped,
}

struct Shared {
    inner: Arc<MarketStore>,
    flaw: Flaw,
    /// Events that were marked as sent, for [`Flaw::SentMovesFailedRows`].
    marked: Mutex<BTreeSet<EventId>>,
    /// Keeps units apart where a flaw would otherwise show only now and then.
    one_at_a_time: Arc<tokio::sync::Mutex<()>>,
    /// Rings for events that were appended and for nothing else, for [`Flaw::RedrivesAndReleasesRingNobody`].
    bell: Wake,
    /// A transaction was left open, for [`Flaw::ACutBeginSwallowsTheNextUnit`].
    left_open: AtomicBool,
}

/// The store in memory with one flaw.
pub struct FlawedStoreRig {
    sound: MemoryStoreRig,
    shared: Arc<Shared>,
}

impl FlawedStoreRig {
    /// A fresh rig with this flaw.
    pub fn new(flaw: Flaw) -> FlawedStoreRig {
        let sound = MemoryStoreRig::new();
        let inner = sound.market();
        let shared = Shared {
            inner,
            flaw,
            marked: Mutex::default(),
            one_at_a_time: Arc::default(),
            bell: Wake::default(),
            left_open: AtomicBool::new(false),
        };
        FlawedStoreRig { sound, shared: Arc::new(shared) }
    }
}

#[async_trait]
impl StoreRig for FlawedStoreRig {
    fn store(&self) -> Arc<OutboxStore> {
        outbox_of(&self.market())
    }

    fn wake(&self) -> Wake {
        match self.shared.flaw {
            Flaw::CommitRingsNobody => Wake::default(),
            Flaw::RedrivesAndReleasesRingNobody => self.shared.bell.clone(),
            _ => self.sound.wake(),
        }
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.sound.move_database_clock(by);
    }
}

#[async_trait]
impl MarketRig for FlawedStoreRig {
    fn market(&self) -> Arc<MarketStore> {
        Arc::new(FlawedStore(self.shared.clone()))
    }
}

struct FlawedStore(Arc<Shared>);

/// Left in a `begin` that may be dropped.
struct Begun<'a> {
    shared: &'a Shared,
    cut: bool,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if self.cut {
            self.shared.left_open.store(true, Ordering::Relaxed);
        }
    }
}

#[async_trait]
impl Store for FlawedStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        let swallows = self.0.flaw == Flaw::ACutBeginSwallowsTheNextUnit;
        let mut begun = Begun { shared: &self.0, cut: swallows };
        let inner = self.0.inner.begin().await?;
        begun.cut = false;
        Ok(Box::new(Wrapped(Flawed::new(inner, &self.0))))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        Ok(Box::new(Wrapped(Flawed::new(self.0.inner.view().await?, &self.0))))
    }
}

/// A unit or a view with the flaw.
struct Flawed<U: ?Sized + Send + 'static> {
    inner: Option<Box<U>>,
    shared: Arc<Shared>,
    /// A flaw refused a statement.
    failed: bool,
    /// For [`Flaw::EventsAreAppendedAfterTheCommit`].
    events: Vec<NewEvent>,
    /// Of the events appended, for [`Flaw::RedrivesAndReleasesRingNobody`].
    appended: Vec<Partition>,
    alone: Option<tokio::sync::OwnedMutexGuard<()>>,
}

/// Long enough for anyone who watches.
async fn linger() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

type Unit = Flawed<Work>;

impl<U: ?Sized + Send> Flawed<U> {
    fn new(inner: Box<U>, shared: &Arc<Shared>) -> Flawed<U> {
        Flawed {
            inner: Some(inner),
            shared: shared.clone(),
            failed: false,
            events: Vec::new(),
            appended: Vec::new(),
            alone: None,
        }
    }

    /// From here to the end of the unit.
    async fn be_alone(&mut self) {
        if self.alone.is_none() {
            self.alone = Some(self.shared.one_at_a_time.clone().lock_owned().await);
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.shared.flaw == flaw
    }

    /// Where a page begins.
    fn first_below(&self, before: Option<i64>) -> Option<i64> {
        before.map(|id| id + i64::from(self.has(Flaw::PagesRepeatTheirLastRow)))
    }
}

impl<U: ?Sized + Send> Drop for Flawed<U> {
    fn drop(&mut self) {
        if self.has(Flaw::DroppedUnitsCommit)
            && let Some(inner) = self.inner.take()
            && let Some(unit) = (Box::new(inner) as Box<dyn std::any::Any>).downcast::<Box<Work>>().ok()
        {
            // The store in memory needs nothing but to be polled.
            let mut commit = pin!(unit.commit());
            let mut context = Context::from_waker(Waker::noop());
            while commit.as_mut().poll(&mut context).is_pending() {}
        }
    }
}

mod assets;
mod business;
mod consuming;
mod effects;
mod leases;
mod operations;
mod outbox;
mod requests;

impl<U: MarketView + ?Sized> Wraps for Flawed<U> {
    type Inner = U;

    fn inner(&mut self) -> &mut U {
        self.inner.as_mut().expect("a unit is used until it ends")
    }
}

impl UnitWrapper for Unit {
    async fn commit(mut self) -> Result<(), StoreError> {
        let inner = self.inner.take().expect("a unit is committed once");
        if self.failed {
            return Err(StoreError::Backend("a statement failed".into()));
        }
        if self.has(Flaw::ACutBeginSwallowsTheNextUnit)
            && self.shared.left_open.swap(false, Ordering::Relaxed)
        {
            return Ok(());
        }
        let committed = inner.commit().await;
        if committed.is_ok() && !self.appended.is_empty() {
            self.shared.bell.ring(self.appended.drain(..).collect());
        }
        if committed.is_ok() && !self.events.is_empty() {
            linger().await;
            let mut second = self.shared.inner.begin().await?;
            second.outbox().append(&self.events).await?;
            second.commit().await?;
        }
        if self.has(Flaw::CommitReportsSuccessAfterAFailure) { Ok(()) } else { committed }
    }
}
