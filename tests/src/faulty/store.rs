//! A store with one fault: the list of faults, and how units of work begin and end. The folder `outbox` contains the
//! faults of the toolkit's ports, the folder `market` those of the marketplace's ports.

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
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{NewEvent, OutboxStore, Store, StoreError, outbox_of};
use handover_outbox::wrap::{UnitWrapper, Wrapped, Wraps};
use marketplace::ports::{MarketStore, MarketView, Work};
use marketplace_contract::store::MarketRig;

/// The guarantee that the store violates; `None` is a correct store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    EventsAreAppendedAfterCommit,
    AppendKeepsFirstHundredOnly,
    AppendIgnoresCase,
    AppendReformatsPayloads,
    AppendDropsRoutingKeys,
    RetryTimesAreTruncatedToMilliseconds,
    InsertIgnoresTakenIds,
    SecondPaymentInProcessingIsIgnored,
    TitlesAreTrimmed,
    OrdersLeakToOtherTenants,
    PagesRepeatLastRow,
    OverdueExcludesDeadline,
    ShippedExcludesLimit,
    ShippedPagesIgnoreCursor,
    UpdatesIgnoreVersion,
    DueIncludesBlockedRows,
    BlockedRowsCountAgainstLimit,
    DueStartsAfterFirstId,
    DueIgnoresRowsBelowFirstId,
    DueIncludesRowsInFlight,
    AheadIncludesExcludedGroups,
    AheadOvertakesPendingRows,
    AheadIgnoresDueTimes,
    AheadSkipsRowOfNextId,
    NextDueIsNotAfterNow,
    MarkSentMovesFailedRows,
    RetriesWithinBoundAreBroughtForward,
    RetriesOfOtherPartitionsAreBroughtForward,
    RedrivenRowsAreBroughtForward,
    FenceAlwaysSucceeds,
    SentRowsAreNotFenced,
    RecordIgnoresExpectedState,
    UnappliedExcludesFailed,
    UnappliedExcludesRegisteredTypes,
    IdleConsumersAreForgotten,
    UnconsumedExcludesRegisteredTypes,
    StaleRecordsIncludeExceptedTypes,
    ExceptedTypesCountAgainstLimit,
    RegisteredTypesIgnoreCase,
    RegistrationsAreNotRenewed,
    RegistrationsReplaceOthers,
    RenewedRegistrationsAreRemoved,
    EndingLeasesKeepsRegisteredTypes,
    EffectsAreDeduplicated,
    FirstListingReleaseIsIgnored,
    NotificationsAreDeduplicated,
    NotificationsLeakToOtherTenants,
    CreditIsCountedOncePerEvent,
    CreditIsCountedFromStaleRead,
    CreditLeaksToOtherTenants,
    ScoresHaveNoUpperLimit,
    ShipmentPagesIgnoreState,
    IdBlocksOverlap,
    IdBlocksAreNotRaised,
    IdBlocksHaveNoEnd,
    RaisesHaveNoEnd,
    ImportedIdsAreCounted,
    TakenIdsAreNotFound,
    DeletedRelaysKeepHeartbeat,
    OlderRelaysAreIgnored,
    ExpiredLeasesAreNotRenewed,
    LeadersAreTakenUnseen,
    LeaderLeasesAreTooLong,
    EndedLeadersAreNotRenewed,
    LostLeadersRenew,
    LeaderRenewalsAreLost,
    LeaderNamesIgnoreCase,
    LeadersAreNotReleased,
    LeaderFenceAlwaysSucceeds,
    LeaderFenceTakesNoLock,
    EndingLeasesReelectsLeaders,
    FailedRunsClearLastSuccess,
    JobNamesIgnoreCase,
    JobRecordsAreSortedByTime,
    JobIntervalsAreLost,
    SavedAlertsLoseTheirAcknowledgement,
    AcknowledgementsResetAlerts,
    AlertNamesIgnoreCase,
    ReportsCountTooLong,
    SamplesIncludeTheEnd,
    SamplesAreReplaced,
    DeletesReachOtherResolutions,
    RetriesOfConsumersAreIgnored,
    ReportsAreWrittenOutsideUnit,
    ArchivedEventsAreForgotten,
    ArchivedPagesIgnoreFilter,
    InterpretedEventsLoseRecords,
    ArchiveRestartsNumbers,
    ArchiveHidesLastId,
    ArchiveIgnoresChanges,
    ArchiveIsWrittenOutsideUnit,
    ArchiveFilesAreNeverDone,
    RestoreReportsEveryEvent,
    RestoreForgetsTime,
    AnyArchiveFileIsReplaced,
    ArchiveFilesAreNotLocked,
    RecordedFilesAreGivenUp,
    ErasureIsWrittenOutsideUnit,
    ErasureMasksOpenDeadLetters,
    ErasureCountsUnchangedRows,
    ReasonsAreNotErased,
    ResponsesStartAgain,
    TitlesAreNotErased,
    OrderTextsAreCountedAgain,
    FindingReasonsAreNotErased,
    CommitSucceedsAfterFailedStatement,
    CommitSendsNoNotification,
    DroppedUnitsCommit,
    DeferredEventsAreLost,
    ProductsAreWrittenOutsideUnit,
    CancelledBeginLosesNextUnit,
    PaymentsAreSortedByTime,
    RowsOfAggregatesAreSortedById,
    NumbersRestartInEachCall,
    DueTimesAreIgnored,
    TextKeysAreReadByTheirNumber,
    TextKeysAreReleasedByTheirNumber,
    BlockedLeaksToOtherTenants,
    BlockedCountsAllPendingRows,
    BlockedAggregatesAreAlsoWaiting,
    CountsIncludeAllTenants,
    BacklogCountsFutureRetriesAsDue,
    BacklogCountsReleasedRows,
    FailedRowsAreUnreadable,
    RedriveMovesNewRows,
    RedriveKeepsAttempts,
    RedriveReportsUnchangedRows,
    RedriveAndReleaseSendNoNotification,
    HistoryIsSortedByTime,
    HistoryIsDeduplicated,
    HistoryIsWrittenOutsideUnit,
    ReleaseReachesOtherTenants,
    LogPagesIgnoreTenant,
    PagesIgnoreTimes,
    ConsumeRecordsAreSortedByConsumer,
    DeadLetterPagesIgnoreStatus,
    DeadLettersOfKeyIncludeOneQueueOnly,
    ParkIgnoresDeadLetterBeingReplayed,
    ParkRefusesNul,
    DeadLettersAreParkedOutsideUnit,
    DecideIgnoresStatus,
    DecideClearsNote,
    AuditLeaksToOtherTenants,
    AuditChangesIncludeReads,
    AuditIsWrittenOutsideUnit,
    OldAuditReadsIgnoreTheLimit,
    OldAuditReadsIncludeYoungOnes,
    WebhookClaimsExceedTheLimit,
    WebhookClaimsExceedTheRate,
    WebhookOrderIsIgnored,
    EndpointsLeakToOtherTenants,
    DeliveryPagesIgnoreStatus,
    WebhookClaimsIgnorePauses,
    FailingEndpointsGetManyAttempts,
    WebhookClaimsEndEarly,
    RepeatedClaimsAreNew,
    NewestDeliveriesAreClaimedFirst,
    WebhookClaimsIgnoreCapacity,
    WebhookResultsIgnoreClaims,
    InterruptedAttemptsAreCounted,
    InterruptedAttemptsAreLost,
    EndpointReplacementsResetHealth,
    EndpointLocksAreNotTaken,
    IgnoredDeliveriesAreCounted,
    WebhookClaimsAreTakenOutsideUnit,
    ResendingIgnoresLimit,
    EmptyDeliveriesAreSentAgain,
    YoungDeliveriesAreDeleted,
    DisabledEndpointsKeepDeliveries,
    DeletionOfDeliveriesEndsEarly,
    DeliveryFormsAreLost,
    EndpointReadsIgnoreTenant,
    EndpointLocksIgnoreTenant,
    EndpointReplacementsIgnoreTenant,
    EndpointHealthIgnoresTenant,
    DeliveryReadsIgnoreTenant,
    DeliveryPagesIgnoreTenant,
    AttemptReadsIgnoreTenant,
    AttemptCountsIgnoreTenant,
    DeadDeliveryCountsIgnoreTenant,
    CancellationIgnoresTenant,
    ResendingIgnoresTenant,
    TakenOperationKeysAreIgnored,
    OperationsLeakToOtherTenants,
    UnbalancedPostingsAreIgnored,
    BalancesAreNotLocked,
    NegativeBalancesAreIgnored,
    BalancesLeakToOtherTenants,
    FrozenHoldPagesRestart,
    HoldsOverwriteOthers,
    SecondRefundsAreIgnored,
    RefundsOfAllCapturesConflict,
    ExcessRefundsAreCounted,
    SupersededAttemptsAreNotFound,
    RefundPagesIgnoreStatus,
    PaymentPagesIgnoreBound,
    TakenReferencesAreIgnored,
    TakenCapturedTransactionsAreIgnored,
    CapturesIgnoreCase,
    UpdatesOfMissingCapturesAreReported,
    TakenReportKeysAreIgnored,
    ReportsLeakToOtherTenants,
    ReportRangesIncludeEnd,
    ClosedReportsAreClosedAgain,
    TakenFindingSubjectsAreIgnored,
    FindingsLeakToOtherTenants,
    FindingsWithoutTenantHaveDefaultTenant,
    FindingsAdvanceFromAnyVersion,
    AcknowledgedFindingsAreCounted,
    TakenInvoicePeriodsAreIgnored,
    InvoicesLeakToOtherTenants,
    OnlyFirstInvoiceLinesAreWritten,
    InvoicedOrdersAreIgnored,
    InvoicesAdvanceFromAnyVersion,
    SecondPaymentOfInvoiceIsIgnored,
    InvoicePaymentsLeakToOtherTenants,
    TenantsWithOrdersAreSkipped,
    CompletedOrdersIncludeTheEnd,
    RefundsAreDueLate,
    OldestRefundIsTheFirst,
    CouponsExpireLate,
    ChangedOrdersLeakToOtherTenants,
    ProductsByIdLeakToOtherTenants,
    OnlyFirstProductsAreFound,
    NewestProductsLeakToOtherTenants,
    ListingChangesOfProductsAreSortedByOrder,
    DriftIsNotReported,
    LedgerComparisonEndsEarly,
    TakenScopesAreClaimed,
    LockedScopesAreClaimed,
    RequestsAdvanceByAnyToken,
    AnsweredRequestsAreDropped,
}

struct Shared {
    inner: Arc<MarketStore>,
    fault: Fault,
    /// Events that a relay marked as SENT, for [`Fault::MarkSentMovesFailedRows`].
    marked: Mutex<BTreeSet<EventId>>,
    /// Serializes units of work whose fault would otherwise show only under some interleavings.
    serial: Arc<tokio::sync::Mutex<()>>,
    /// Notifier that receives only appended events, for [`Fault::RedriveAndReleaseSendNoNotification`].
    appended_wake: WakeupNotifier,
    /// Whether a cancelled `begin` left a transaction open, for [`Fault::CancelledBeginLosesNextUnit`].
    left_open: AtomicBool,
}

/// Rig of the in-memory store with one fault.
pub struct FaultyStoreRig {
    correct: MemoryStoreRig,
    shared: Arc<Shared>,
}

impl FaultyStoreRig {
    /// A fresh rig with the given fault.
    pub fn new(fault: Fault) -> FaultyStoreRig {
        let correct = MemoryStoreRig::new();
        let inner = correct.market();
        let shared = Shared {
            inner,
            fault,
            marked: Mutex::default(),
            serial: Arc::default(),
            appended_wake: WakeupNotifier::default(),
            left_open: AtomicBool::new(false),
        };
        FaultyStoreRig { correct, shared: Arc::new(shared) }
    }
}

#[async_trait]
impl StoreRig for FaultyStoreRig {
    fn store(&self) -> Arc<OutboxStore> {
        outbox_of(&self.market())
    }

    fn wake(&self) -> WakeupNotifier {
        match self.shared.fault {
            Fault::CommitSendsNoNotification => WakeupNotifier::default(),
            Fault::RedriveAndReleaseSendNoNotification => self.shared.appended_wake.clone(),
            _ => self.correct.wake(),
        }
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.correct.move_database_clock(by);
    }
}

#[async_trait]
impl MarketRig for FaultyStoreRig {
    fn market(&self) -> Arc<MarketStore> {
        Arc::new(FaultyStore(self.shared.clone()))
    }
}

struct FaultyStore(Arc<Shared>);

/// Guard of a `begin` call. If the call is cancelled, `cut` is still true when the guard is dropped.
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
impl Store for FaultyStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        let swallows = self.0.fault == Fault::CancelledBeginLosesNextUnit;
        let mut begun = Begun { shared: &self.0, cut: swallows };
        let inner = self.0.inner.begin().await?;
        begun.cut = false;
        Ok(Box::new(Wrapped(Faulty::new(inner, &self.0))))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        Ok(Box::new(Wrapped(Faulty::new(self.0.inner.view().await?, &self.0))))
    }
}

/// A unit of work or a view with the fault.
struct Faulty<U: ?Sized + Send + 'static> {
    inner: Option<Box<U>>,
    shared: Arc<Shared>,
    /// Whether a statement failed because of the fault.
    failed: bool,
    /// For [`Fault::EventsAreAppendedAfterCommit`].
    events: Vec<NewEvent>,
    /// Partitions of appended events, for [`Fault::RedriveAndReleaseSendNoNotification`].
    appended: Vec<Partition>,
    serial_lock: Option<tokio::sync::OwnedMutexGuard<()>>,
    /// Whether writes may be deferred, for [`Fault::DeferredEventsAreLost`].
    defers_writes: bool,
}

/// Yields repeatedly, so that other tasks can observe the current state.
async fn yield_to_others() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

type Unit = Faulty<Work>;

impl<U: ?Sized + Send> Faulty<U> {
    fn new(inner: Box<U>, shared: &Arc<Shared>) -> Faulty<U> {
        Faulty {
            inner: Some(inner),
            shared: shared.clone(),
            failed: false,
            events: Vec::new(),
            appended: Vec::new(),
            serial_lock: None,
            defers_writes: false,
        }
    }

    /// Locks [`Shared::serial`] until the unit of work ends.
    async fn serialize(&mut self) {
        if self.serial_lock.is_none() {
            self.serial_lock = Some(self.shared.serial.clone().lock_owned().await);
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.shared.fault == fault
    }

    /// The id below which a page begins. [`Fault::PagesRepeatLastRow`] adds 1, so that the page repeats the last row of
    /// the previous page.
    fn first_below(&self, before: Option<i64>) -> Option<i64> {
        before.map(|id| id + i64::from(self.has(Fault::PagesRepeatLastRow)))
    }
}

impl<U: ?Sized + Send> Drop for Faulty<U> {
    fn drop(&mut self) {
        if self.has(Fault::DroppedUnitsCommit)
            && let Some(inner) = self.inner.take()
            && let Some(unit) = (Box::new(inner) as Box<dyn std::any::Any>).downcast::<Box<Work>>().ok()
        {
            // The in-memory store never waits, so polling without a waker completes the commit.
            let mut commit = pin!(unit.commit());
            let mut context = Context::from_waker(Waker::noop());
            while commit.as_mut().poll(&mut context).is_pending() {}
        }
    }
}

mod market;
mod outbox;

impl<U: MarketView + ?Sized> Wraps for Faulty<U> {
    type Inner = U;

    fn inner(&mut self) -> &mut U {
        self.inner.as_mut().expect("the unit of work was used after its end")
    }
}

impl UnitWrapper for Unit {
    fn defer_writes(&mut self) {
        self.defers_writes = true;
        self.inner().defer_writes();
    }

    async fn commit(mut self) -> Result<(), StoreError> {
        let inner = self.inner.take().expect("the unit of work was committed twice");
        if self.failed {
            return Err(StoreError::Backend("a statement failed".into()));
        }
        if self.has(Fault::CancelledBeginLosesNextUnit)
            && self.shared.left_open.swap(false, Ordering::Relaxed)
        {
            return Ok(());
        }
        let committed = inner.commit().await;
        if committed.is_ok() && !self.appended.is_empty() {
            self.shared.appended_wake.notify(self.appended.drain(..).collect());
        }
        if committed.is_ok() && !self.events.is_empty() {
            yield_to_others().await;
            let mut second = self.shared.inner.begin().await?;
            second.outbox().append(&self.events).await?;
            second.commit().await?;
        }
        if self.has(Fault::CommitSucceedsAfterFailedStatement) { Ok(()) } else { committed }
    }
}
