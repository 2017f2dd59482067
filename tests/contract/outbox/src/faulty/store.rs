//! A store of which one call fails, or takes long.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::{
    ArchiveQueriesWrapper, ArchiveRepoWrapper, AuditQueriesWrapper, AuditRepoWrapper, ConsumeLogWrapper,
    ConsumeQueriesWrapper, DeadLetterQueriesWrapper, DeadLetterRepoWrapper, ErasureRepoWrapper,
    HistoryQueriesWrapper, HistoryRepoWrapper, JobQueriesWrapper, JobRepoWrapper, LeaderRepoWrapper,
    LeaseQueriesWrapper, LeaseRepoWrapper, MonitoringQueriesWrapper, MonitoringRepoWrapper,
    OperatorQueriesWrapper, OperatorRepoWrapper, OutboxQueriesWrapper, OutboxRepoWrapper, OutboxStore, Store,
    StoreError, UnitOfWork, View, WebhookQueriesWrapper, WebhookRepoWrapper,
};
use handover_outbox::wrap::{UnitWrapper, Wrapped, Wraps};

/// The calls among which one has the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreCall {
    /// All calls, in their order.
    Any,
    /// The begins of units of work, and the views.
    Begin,
    /// The calls of repositories, in units of work and views.
    Statement,
    /// The commits.
    Commit,
}

/// What happens at one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreFault {
    /// The call fails with [`StoreError::Unavailable`] and has no effect.
    Unavailable,
    /// The call fails with [`StoreError::Transient`], as after a deadlock, and has no effect.
    Transient,
    /// The connection is lost before a commit takes effect: the caller gets [`StoreError::CommitUnknown`], and nothing is
    /// committed. Another call fails with [`StoreError::Unavailable`].
    CommitLost,
    /// The connection is lost after a commit took effect: the caller gets [`StoreError::CommitUnknown`]. Another call fails with
    /// [`StoreError::Unavailable`].
    ReplyLost,
    /// The call succeeds after this time.
    Slow(Duration),
    /// The call has no effect and never ends: its caller has to drop it, as when the process is killed.
    Hangs,
}

/// A store that behaves like `inner`, apart from one call.
///
/// To test every point at which an operation can be interrupted, repeat it with a fault at call 0, 1, 2 ... until the fault no longer
/// occurs:
///
/// ```ignore
/// for calls in 0.. {
///     let store = FaultyStore::new(fresh_store(), StoreCall::Any, calls, StoreFault::ReplyLost);
///     let store = Arc::new(store);
///     operation(store.clone()).await;
///     assert_consistent(&store).await;
///     if !store.has_failed() {
///         break;
///     }
/// }
/// ```
pub struct FaultyStore {
    inner: Arc<OutboxStore>,
    plan: Arc<Plan>,
}

/// The call with the fault, and the number of calls so far.
struct Plan {
    of: StoreCall,
    after: usize,
    fault: StoreFault,
    calls: AtomicUsize,
}

impl FaultyStore {
    /// Adds the fault to one call: `after` calls of this kind precede it.
    pub fn new(inner: Arc<OutboxStore>, of: StoreCall, after: usize, fault: StoreFault) -> FaultyStore {
        FaultyStore { inner, plan: Arc::new(Plan { of, after, fault, calls: AtomicUsize::new(0) }) }
    }

    /// Whether the call with the fault has been made.
    pub fn has_failed(&self) -> bool {
        self.plan.calls.load(Ordering::Relaxed) > self.plan.after
    }
}

impl Plan {
    /// Counts a call. Returns the fault if it is the one.
    fn fault_of(&self, call: StoreCall) -> Option<StoreFault> {
        let is_counted = self.of == StoreCall::Any || self.of == call;
        (is_counted && self.calls.fetch_add(1, Ordering::Relaxed) == self.after).then_some(self.fault)
    }

    /// A call that is no commit.
    async fn before(&self, call: StoreCall) -> Result<(), StoreError> {
        match self.fault_of(call) {
            None => Ok(()),
            Some(StoreFault::Transient) => Err(StoreError::Transient("a deadlock".into())),
            Some(StoreFault::Unavailable | StoreFault::CommitLost | StoreFault::ReplyLost) => {
                Err(unavailable())
            }
            Some(StoreFault::Slow(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Some(StoreFault::Hangs) => pending().await,
        }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("the connection was lost".into())
}

fn unknown() -> StoreError {
    StoreError::CommitUnknown("the connection was lost in COMMIT".into())
}

#[async_trait]
impl Store for FaultyStore {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.plan.before(StoreCall::Begin).await?;
        Ok(Box::new(Wrapped(Faulty::new(self.inner.begin().await?, &self.plan))))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.plan.before(StoreCall::Begin).await?;
        Ok(Box::new(Wrapped(Faulty::new(self.inner.view().await?, &self.plan))))
    }
}

/// A unit of work or a view.
struct Faulty<V: ?Sized> {
    inner: Box<V>,
    plan: Arc<Plan>,
    /// A statement has failed, so that nothing can be committed.
    has_failed: bool,
}

impl<V: ?Sized> Faulty<V> {
    fn new(inner: Box<V>, plan: &Arc<Plan>) -> Faulty<V> {
        Faulty { inner, plan: Arc::clone(plan), has_failed: false }
    }
}

type Unit = Faulty<dyn UnitOfWork>;

impl<V: View + ?Sized> Wraps for Faulty<V> {
    type Inner = V;

    fn inner(&mut self) -> &mut V {
        &mut self.inner
    }

    async fn before(&mut self, _port: &'static str, _method: &'static str) -> Result<(), StoreError> {
        let outcome = self.plan.before(StoreCall::Statement).await;
        self.has_failed |= outcome.is_err();
        outcome
    }
}

impl UnitWrapper for Unit {
    async fn commit(self) -> Result<(), StoreError> {
        if self.has_failed {
            return Err(unavailable());
        }
        match self.plan.fault_of(StoreCall::Commit) {
            None => self.inner.commit().await,
            Some(StoreFault::Unavailable) => Err(unavailable()),
            Some(StoreFault::Transient) => Err(StoreError::Transient("a deadlock".into())),
            Some(StoreFault::CommitLost) => Err(unknown()),
            Some(StoreFault::ReplyLost) => {
                self.inner.commit().await?;
                Err(unknown())
            }
            Some(StoreFault::Slow(time)) => {
                tokio::time::sleep(time).await;
                self.inner.commit().await
            }
            Some(StoreFault::Hangs) => pending().await,
        }
    }
}

impl<V: View + ?Sized> OutboxQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> OperatorQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> HistoryQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> ConsumeQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> DeadLetterQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> LeaseQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> JobQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> AuditQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> MonitoringQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> WebhookQueriesWrapper for Faulty<V> {}
impl<V: View + ?Sized> ArchiveQueriesWrapper for Faulty<V> {}
impl OutboxRepoWrapper for Unit {}
impl OperatorRepoWrapper for Unit {}
impl HistoryRepoWrapper for Unit {}
impl ConsumeLogWrapper for Unit {}
impl DeadLetterRepoWrapper for Unit {}
impl LeaseRepoWrapper for Unit {}
impl LeaderRepoWrapper for Unit {}
impl JobRepoWrapper for Unit {}
impl AuditRepoWrapper for Unit {}
impl MonitoringRepoWrapper for Unit {}
impl WebhookRepoWrapper for Unit {}
impl ArchiveRepoWrapper for Unit {}
impl ErasureRepoWrapper for Unit {}
