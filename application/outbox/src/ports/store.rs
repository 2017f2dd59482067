//! The store: units of work and views on the database.

use std::sync::Arc;

use async_trait::async_trait;

use super::archive::{ArchiveQueries, ArchiveRepo};
use super::audit::{AuditQueries, AuditRepo};
use super::consume::{ConsumeLog, ConsumeQueries};
use super::dead_letters::{DeadLetterQueries, DeadLetterRepo};
use super::erasure::ErasureRepo;
use super::error::StoreError;
use super::history::{HistoryQueries, HistoryRepo};
use super::jobs::{JobQueries, JobRepo, LeaderRepo};
use super::leases::{LeaseQueries, LeaseRepo};
use super::monitoring::{MonitoringQueries, MonitoringRepo};
use super::operator::{OperatorQueries, OperatorRepo};
use super::outbox::{OutboxQueries, OutboxRepo};
use super::webhooks::{WebhookQueries, WebhookRepo};

/// Begins units of work and views. An application declares its own types once, in an alias such as `dyn Store<Unit =
/// dyn MarketUnit, View = dyn MarketView>`.
#[async_trait]
pub trait Store: Send + Sync {
    /// Unit of work: one transaction.
    type Unit: UnitOfWork + ?Sized + 'static;
    /// View for reads outside of a transaction.
    type View: View + ?Sized + 'static;

    /// Begins a unit of work.
    ///
    /// - Its writes MUST be invisible to others until [`UnitOfWork::commit`] returned `Ok`, and then visible as a
    ///   whole.
    /// - Dropping it, or dropping this future, MUST undo everything, and MUST NOT leave a later unit of work inside
    ///   its transaction.
    /// - It MUST read its own writes, and data that was committed when the statement or the unit of work began.
    /// - After a failed statement, `commit` MUST NOT report success.
    async fn begin(&self) -> Result<Box<Self::Unit>, StoreError>;

    /// Opens a view for reads only. It MUST see every unit of work committed before this call, and MUST NOT block
    /// writers.
    async fn view(&self) -> Result<Box<Self::View>, StoreError>;

    /// Whether transactions that write run one after the other, so that concurrent work gains nothing. It affects speed only.
    fn has_single_writer(&self) -> bool {
        false
    }
}

/// A store reduced to the outbox ports; used by relay, drainer and operations.
pub type OutboxStore = dyn Store<Unit = dyn UnitOfWork, View = dyn View>;

/// All read access to the outbox: events, history, consume log, dead letters, leases, jobs, audit log,
/// monitoring, webhooks, archive.
pub trait OutboxView:
    OutboxQueries
    + OperatorQueries
    + HistoryQueries
    + ConsumeQueries
    + DeadLetterQueries
    + LeaseQueries
    + JobQueries
    + AuditQueries
    + MonitoringQueries
    + WebhookQueries
    + ArchiveQueries
{
}

impl<T> OutboxView for T where
    T: OutboxQueries
        + OperatorQueries
        + HistoryQueries
        + ConsumeQueries
        + DeadLetterQueries
        + LeaseQueries
        + JobQueries
        + AuditQueries
        + MonitoringQueries
        + WebhookQueries
        + ArchiveQueries
        + ?Sized
{
}

/// All read and write access to the outbox, in one unit of work.
pub trait OutboxUnit:
    OutboxView
    + OutboxRepo
    + OperatorRepo
    + HistoryRepo
    + ConsumeLog
    + DeadLetterRepo
    + LeaseRepo
    + LeaderRepo
    + JobRepo
    + AuditRepo
    + MonitoringRepo
    + WebhookRepo
    + ArchiveRepo
    + ErasureRepo
{
}

impl<T> OutboxUnit for T where
    T: OutboxView
        + OutboxRepo
        + OperatorRepo
        + HistoryRepo
        + ConsumeLog
        + DeadLetterRepo
        + LeaseRepo
        + LeaderRepo
        + JobRepo
        + AuditRepo
        + MonitoringRepo
        + WebhookRepo
        + ArchiveRepo
        + ErasureRepo
        + ?Sized
{
}

/// Read access, outside of a transaction or in a unit of work.
pub trait View: Send {
    /// Read access to the outbox.
    fn outbox_view(&mut self) -> &mut dyn OutboxView;
}

/// One transaction. It *has* an outbox, in addition to the application's own repositories. Dropping a unit of work
/// rolls its transaction back.
#[async_trait]
pub trait UnitOfWork: View {
    /// Read and write access to the outbox in this transaction.
    fn outbox(&mut self) -> &mut dyn OutboxUnit;

    /// Allows writes that return nothing, such as [`OutboxRepo::append`], to be sent with a later statement: from now on
    /// their error may be returned by a later call, at the latest by `commit`, which then commits nothing. The unit of work
    /// MUST still read its own writes. A store need not defer anything.
    fn defer_writes(&mut self) {}

    /// Whether [`defer_writes`](UnitOfWork::defer_writes) was called. Then a handler may leave it to a unique key to find what exists
    /// already, instead of reading it: a caller that defers writes MUST NOT defer them in the attempt after a conflict.
    fn defers_writes(&mut self) -> bool {
        false
    }

    /// Commits: all changes become visible and durable, or none.
    ///
    /// `Ok` MUST mean durable. [`StoreError::CommitUnknown`] is the only error after which the unit of work may be
    /// committed. A commit that appended events MUST wake the relay of this process (`WakeupNotifier`).
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Reduces a store to its outbox ports.
pub fn outbox_of<S: Store + ?Sized + 'static>(store: &Arc<S>) -> Arc<OutboxStore> {
    Arc::new(Erased(Arc::clone(store)))
}

/// Wraps a pointer to a store, unit of work or view, so that it can be converted to a trait object of the outbox
/// ports.
pub(crate) struct Erased<P>(pub(crate) P);

#[async_trait]
impl<S: Store + ?Sized> Store for Erased<Arc<S>> {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        Ok(Box::new(Erased(self.0.begin().await?)))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        Ok(Box::new(Erased(self.0.view().await?)))
    }

    fn has_single_writer(&self) -> bool {
        self.0.has_single_writer()
    }
}

impl<V: View + ?Sized> View for Erased<Box<V>> {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self.0.outbox_view()
    }
}

#[async_trait]
impl<U: UnitOfWork + ?Sized> UnitOfWork for Erased<Box<U>> {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self.0.outbox()
    }

    fn defer_writes(&mut self) {
        self.0.defer_writes();
    }

    fn defers_writes(&mut self) -> bool {
        self.0.defers_writes()
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }
}
