//! Store with injected faults: outages, failing commits, and lost replies of commits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::ports::*;
use handover_outbox::wrap::{UnitWrapper, Wrapped, Wraps};
use marketplace::ports::*;
use marketplace_domain::{Payment, PaymentId, Product, ProductId, RefundId};

/// Fault of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitFault {
    /// The commit succeeds.
    None,
    /// The commit succeeds, but its reply is lost: the outcome is unknown to the caller.
    ReplyLost,
    /// Nothing is committed, and the outcome is unknown to the caller.
    Lost,
    /// The commit takes one second.
    Slow,
    /// The commit fails with a transient error.
    Transient,
    /// The commit fails with a transient error, and its rollback ends only when the process begins the third unit of work
    /// after it: until then, the unit keeps its locks.
    LateRollback,
    /// The commit fails, and the store stays unavailable until it is set available.
    Unavailable,
}

/// Text that no dead letter and no error of a refund request may contain: the store rejects it with a backend error.
pub(crate) const UNSTORABLE: &str = "unstorable";

/// Fault switches of one process's connection to the store.
#[derive(Clone, Default)]
pub(crate) struct StoreFaults(Arc<Mutex<Switches>>);

#[derive(Default)]
struct Switches {
    unavailable: bool,
    commits: VecDeque<CommitFault>,
    begun_units: u64,
    calls: u64,
    lowered_by: BTreeMap<IdKind, i64>,
    corrupt_payments: BTreeSet<PaymentId>,
    corrupt_products: BTreeSet<ProductId>,
    is_log_long: bool,
    rejected_events: BTreeSet<EventId>,
    /// A unit of work that is being rolled back, and how many units begin before that ends.
    rolling_back: Option<(u32, Box<Work>)>,
}

impl StoreFaults {
    /// Lowers the ids of each new id block of this kind by this amount, as after a restored backup, until the process
    /// raises the id sequence.
    pub(crate) fn lower_id_blocks(&self, kind: IdKind, by: i64) {
        self.switches().lowered_by.insert(kind, by);
    }

    /// Makes the store unavailable or available. While it is unavailable, no unit of work or view begins and no
    /// commit succeeds.
    pub(crate) fn set_unavailable(&self, unavailable: bool) {
        self.switches().unavailable = unavailable;
    }

    /// Sets the faults of the next commits, in this sequence. Later commits succeed.
    pub(crate) fn next_commits(&self, faults: impl IntoIterator<Item = CommitFault>) {
        self.switches().commits.extend(faults);
    }

    /// Makes the row of this payment unreadable for units of work.
    pub(crate) fn corrupt_payment(&self, id: PaymentId) {
        self.switches().corrupt_payments.insert(id);
    }

    /// Makes the row of this product unreadable for units of work.
    pub(crate) fn corrupt_product(&self, id: ProductId) {
        self.switches().corrupt_products.insert(id);
    }

    /// Rejects every consume-log record of this event.
    pub(crate) fn reject_records_of(&self, event: &str) {
        self.switches().rejected_events.insert(event.parse().unwrap());
    }

    /// Whether a search of the whole consume log exceeds a limit of the database.
    pub(crate) fn set_log_long(&self, is_long: bool) {
        self.switches().is_log_long = is_long;
    }

    /// Number of begun units of work.
    pub(crate) fn begun_units(&self) -> u64 {
        self.switches().begun_units
    }

    /// Number of begins, views and commits, including those that failed because the store was unavailable.
    pub(crate) fn calls(&self) -> u64 {
        self.switches().calls
    }

    fn count_begun_unit(&self) {
        let mut switches = self.switches();
        switches.begun_units += 1;
        switches.rolling_back = match switches.rolling_back.take() {
            Some((remaining, unit)) if remaining > 0 => Some((remaining - 1, unit)),
            Some(_) | None => None,
        };
    }

    fn lowered(&self, kind: IdKind, id: i64) -> i64 {
        (id - self.switches().lowered_by.get(&kind).copied().unwrap_or(0)).max(1)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.switches().calls += 1;
        if self.switches().unavailable {
            Err(StoreError::Unavailable("no connection".into()))
        } else {
            Ok(())
        }
    }

    fn switches(&self) -> MutexGuard<'_, Switches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<MarketStore>,
    pub(crate) faults: StoreFaults,
}

#[async_trait]
impl Store for FaultyStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        self.faults.check()?;
        self.faults.count_begun_unit();
        let inner = self.inner.begin().await?;
        Ok(Box::new(Wrapped(FaultyUnit { inner, faults: self.faults.clone() })))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.faults.check()?;
        self.inner.view().await
    }
}

struct FaultyUnit {
    inner: Box<Work>,
    faults: StoreFaults,
}

impl Wraps for FaultyUnit {
    type Inner = Work;

    fn inner(&mut self) -> &mut Work {
        &mut *self.inner
    }
}

impl UnitWrapper for FaultyUnit {
    async fn commit(self) -> Result<(), StoreError> {
        self.faults.check()?;
        let fault = self.faults.switches().commits.pop_front().unwrap_or(CommitFault::None);
        match fault {
            CommitFault::None => self.inner.commit().await,
            CommitFault::ReplyLost => {
                self.inner.commit().await?;
                Err(StoreError::CommitUnknown("the connection was lost in COMMIT".into()))
            }
            CommitFault::Lost => Err(StoreError::CommitUnknown("the connection was lost in COMMIT".into())),
            CommitFault::Slow => {
                super::pass(super::secs(1)).await;
                self.inner.commit().await
            }
            CommitFault::LateRollback => {
                self.faults.switches().rolling_back = Some((2, self.inner));
                Err(StoreError::Transient("deadlock".into()))
            }
            CommitFault::Transient => Err(StoreError::Transient("serialization failure".into())),
            CommitFault::Unavailable => {
                self.faults.set_unavailable(true);
                Err(StoreError::Unavailable("no connection".into()))
            }
        }
    }
}

impl DeadLetterRepoWrapper for FaultyUnit {
    /// Rejects a body that contains [`UNSTORABLE`].
    async fn park(&mut self, dead_letters: &[DeadLetter]) -> Result<(), StoreError> {
        if dead_letters.iter().any(|dead_letter| dead_letter.body.contains(UNSTORABLE)) {
            return Err(StoreError::Backend("the body cannot be stored".into()));
        }
        self.inner.outbox().park(dead_letters).await
    }
}

impl IdQueriesWrapper for FaultyUnit {
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError> {
        let state = self.inner.id_state(kind).await?;
        Ok(IdState { next: self.faults.lowered(kind, state.next), ..state })
    }
}

impl IdBlocksWrapper for FaultyUnit {
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError> {
        self.faults.switches().lowered_by.remove(&kind);
        self.inner.raise_id_block(kind, next).await
    }

    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        let first = self.inner.take_id_block(kind, size).await?;
        Ok(self.faults.lowered(kind, first))
    }
}

impl PaymentQueriesWrapper for FaultyUnit {
    async fn payment_by_id(&mut self, id: PaymentId) -> Result<Option<Payment>, StoreError> {
        if self.faults.switches().corrupt_payments.contains(&id) {
            return Err(corrupt_status("payments", id));
        }
        self.inner.payment_by_id(id).await
    }
}

impl ConsumeQueriesWrapper for FaultyUnit {
    async fn consumed_about(&mut self, aggregates: &[AggregateRef]) -> Result<Vec<Consumed>, StoreError> {
        if self.faults.switches().is_log_long {
            return Err(StoreError::Unavailable("statement timeout".into()));
        }
        self.inner.outbox().consumed_about(aggregates).await
    }
}

impl ConsumeLogWrapper for FaultyUnit {
    async fn record(&mut self, consumptions: &[Consumption]) -> Result<(), StoreError> {
        let is_rejected = |it: &Consumption| self.faults.switches().rejected_events.contains(&it.event_id);
        if consumptions.iter().any(is_rejected) {
            return Err(StoreError::Backend("the record cannot be stored".into()));
        }
        self.inner.outbox().record(consumptions).await
    }
}

impl RefundRepoWrapper for FaultyUnit {
    /// Rejects an error that contains [`UNSTORABLE`].
    async fn set_refund_request_error(
        &mut self,
        refund: RefundId,
        version: i64,
        error: &str,
    ) -> Result<(), StoreError> {
        if error.contains(UNSTORABLE) {
            return Err(StoreError::Backend("the error cannot be stored".into()));
        }
        self.inner.set_refund_request_error(refund, version, error).await
    }
}

impl ProductQueriesWrapper for FaultyUnit {
    async fn product_by_id(
        &mut self,
        tenant: TenantId,
        id: ProductId,
    ) -> Result<Option<Product>, StoreError> {
        if self.faults.switches().corrupt_products.contains(&id) {
            return Err(corrupt_status("products", id));
        }
        self.inner.product_by_id(tenant, id).await
    }
}

fn corrupt_status(table: &'static str, key: impl ToString) -> StoreError {
    StoreError::Corrupt { table, column: "status", key: key.to_string(), why: "no such status".to_owned() }
}

impl ProductRepoWrapper for FaultyUnit {}
impl OrderQueriesWrapper for FaultyUnit {}
impl OrderRepoWrapper for FaultyUnit {}
impl PaymentRepoWrapper for FaultyUnit {}
impl OutboxQueriesWrapper for FaultyUnit {}
impl OperatorQueriesWrapper for FaultyUnit {}
impl OutboxRepoWrapper for FaultyUnit {}
impl OperatorRepoWrapper for FaultyUnit {}
impl HistoryQueriesWrapper for FaultyUnit {}
impl HistoryRepoWrapper for FaultyUnit {}
impl DeadLetterQueriesWrapper for FaultyUnit {}
impl ArchiveQueriesWrapper for FaultyUnit {}
impl ArchiveRepoWrapper for FaultyUnit {}
impl ErasureRepoWrapper for FaultyUnit {}
impl AuditQueriesWrapper for FaultyUnit {}
impl AuditRepoWrapper for FaultyUnit {}
impl WebhookRepoWrapper for FaultyUnit {}
impl EffectQueriesWrapper for FaultyUnit {}
impl NotificationQueriesWrapper for FaultyUnit {}
impl NotificationRepoWrapper for FaultyUnit {}
impl CreditQueriesWrapper for FaultyUnit {}
impl CreditRepoWrapper for FaultyUnit {}
impl EffectRepoWrapper for FaultyUnit {}
impl LeaseQueriesWrapper for FaultyUnit {}
impl LeaseRepoWrapper for FaultyUnit {}
impl JobQueriesWrapper for FaultyUnit {}
impl MonitoringQueriesWrapper for FaultyUnit {}
impl WebhookQueriesWrapper for FaultyUnit {}
impl LeaderRepoWrapper for FaultyUnit {}
impl JobRepoWrapper for FaultyUnit {}
impl MonitoringRepoWrapper for FaultyUnit {}
impl AssetQueriesWrapper for FaultyUnit {}
impl AssetRepoWrapper for FaultyUnit {}
impl RefundQueriesWrapper for FaultyUnit {}
impl GatewayReportQueriesWrapper for FaultyUnit {}
impl FindingQueriesWrapper for FaultyUnit {}
impl InvoiceQueriesWrapper for FaultyUnit {}
impl GatewayReportRepoWrapper for FaultyUnit {}
impl FindingRepoWrapper for FaultyUnit {}
impl InvoiceRepoWrapper for FaultyUnit {}
impl RequestQueriesWrapper for FaultyUnit {}
impl RequestRepoWrapper for FaultyUnit {}
impl PersonalTextQueriesWrapper for FaultyUnit {}
impl PersonalTextRepoWrapper for FaultyUnit {}
