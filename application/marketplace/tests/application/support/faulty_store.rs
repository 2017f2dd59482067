//! A process's way to the store that a test can cut: away for a while, or commits whose answer is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use handover_outbox::ports::*;
use handover_outbox::wrap::{UnitWrapper, Wrapped, Wraps};
use marketplace::ports::*;

/// What happens to one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitFault {
    /// Nothing.
    None,
    /// It is committed, and its answer is lost.
    AnswerLost,
    /// It is not committed, and nobody can tell.
    Lost,
    /// It takes a second.
    Slow,
    /// The database asks to try again.
    Transient,
    /// The database goes away, for good.
    GoesAway,
}

/// The body of a dead letter that the store refuses for a reason of its own.
pub(crate) const UNSTORABLE: &str = "unstorable";

/// The switches of one process's way to the store.
#[derive(Clone, Default)]
pub(crate) struct StoreFaults(Arc<Mutex<Switches>>);

#[derive(Default)]
struct Switches {
    away: bool,
    commits: VecDeque<CommitFault>,
    begun: u64,
    asked: u64,
    set_back: BTreeMap<IdKind, i64>,
}

impl StoreFaults {
    /// Blocks of ids of this kind begin so much lower, as after a restored backup, until they are raised.
    pub(crate) fn set_ids_back(&self, kind: IdKind, by: i64) {
        self.switches().set_back.insert(kind, by);
    }

    /// Cuts or mends the way to the store: nothing new can begin.
    pub(crate) fn set_away(&self, away: bool) {
        self.switches().away = away;
    }

    /// What the next commits meet, in order; those after them are fine.
    pub(crate) fn next_commits(&self, faults: impl IntoIterator<Item = CommitFault>) {
        self.switches().commits.extend(faults);
    }

    /// How many units have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.switches().begun
    }

    /// How often anything was asked of the store, also while it was away.
    pub(crate) fn asked(&self) -> u64 {
        self.switches().asked
    }

    fn set_back(&self, kind: IdKind, id: i64) -> i64 {
        (id - self.switches().set_back.get(&kind).copied().unwrap_or(0)).max(1)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.switches().asked += 1;
        if self.switches().away { Err(StoreError::Unavailable("no connection".into())) } else { Ok(()) }
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
        self.faults.switches().begun += 1;
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
            CommitFault::AnswerLost => {
                self.inner.commit().await?;
                Err(StoreError::CommitUnknown("the connection was lost in COMMIT".into()))
            }
            CommitFault::Lost => Err(StoreError::CommitUnknown("the connection was lost in COMMIT".into())),
            CommitFault::Slow => {
                super::pass(super::secs(1)).await;
                self.inner.commit().await
            }
            CommitFault::Transient => Err(StoreError::Transient("serialization failure".into())),
            CommitFault::GoesAway => {
                self.faults.set_away(true);
                Err(StoreError::Unavailable("no connection".into()))
            }
        }
    }
}

impl DeadLetterRepoWrapper for FaultyUnit {
    /// Refuses a body that contains [`UNSTORABLE`].
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        if letters.iter().any(|letter| letter.body.contains(UNSTORABLE)) {
            return Err(StoreError::Backend("it cannot be stored".into()));
        }
        self.inner.outbox().park(letters).await
    }
}

impl IdQueriesWrapper for FaultyUnit {
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError> {
        let state = self.inner.id_state(kind).await?;
        Ok(IdState { next: self.faults.set_back(kind, state.next), ..state })
    }
}

impl IdBlocksWrapper for FaultyUnit {
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError> {
        self.faults.switches().set_back.remove(&kind);
        self.inner.raise_id_block(kind, next).await
    }

    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        let first = self.inner.take_id_block(kind, size).await?;
        Ok(self.faults.set_back(kind, first))
    }
}

impl ProductQueriesWrapper for FaultyUnit {}
impl ProductRepoWrapper for FaultyUnit {}
impl OrderQueriesWrapper for FaultyUnit {}
impl OrderRepoWrapper for FaultyUnit {}
impl PaymentQueriesWrapper for FaultyUnit {}
impl PaymentRepoWrapper for FaultyUnit {}
impl OutboxQueriesWrapper for FaultyUnit {}
impl OutboxRepoWrapper for FaultyUnit {}
impl HistoryQueriesWrapper for FaultyUnit {}
impl HistoryRepoWrapper for FaultyUnit {}
impl ConsumeQueriesWrapper for FaultyUnit {}
impl ConsumeLogWrapper for FaultyUnit {}
impl DeadLetterQueriesWrapper for FaultyUnit {}
impl AuditQueriesWrapper for FaultyUnit {}
impl AuditRepoWrapper for FaultyUnit {}
impl EffectQueriesWrapper for FaultyUnit {}
impl NotificationQueriesWrapper for FaultyUnit {}
impl NotificationRepoWrapper for FaultyUnit {}
impl CreditQueriesWrapper for FaultyUnit {}
impl CreditRepoWrapper for FaultyUnit {}
impl EffectRepoWrapper for FaultyUnit {}
impl LeaseQueriesWrapper for FaultyUnit {}
impl LeaseRepoWrapper for FaultyUnit {}
impl AssetQueriesWrapper for FaultyUnit {}
impl AssetRepoWrapper for FaultyUnit {}
impl RefundQueriesWrapper for FaultyUnit {}
impl RefundRepoWrapper for FaultyUnit {}
impl RequestQueriesWrapper for FaultyUnit {}
impl RequestRepoWrapper for FaultyUnit {}
