//! The store: where everything that must survive is kept.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    AuditQueries, AuditRepo, ConsumeLog, ConsumeQueries, DeadLetterQueries, DeadLetterRepo, HistoryQueries,
    HistoryRepo, LeaseQueries, LeaseRepo, OutboxQueries, OutboxRepo,
};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What a caller can do about a failed store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique key is taken, or a row changed under us. The unit is lost; begin again from what is there now.
    #[error("conflict on {what}")]
    Conflict {
        /// The key or row.
        what: String,
    },
    /// Deadlock, lock timeout, serialization failure, busy: the whole unit may be tried again at once.
    #[error("the database asks to try again: {0}")]
    Transient(#[source] Cause),
    /// The database cannot be reached, or no connection was free in time. Nothing was changed.
    #[error("the database is away: {0}")]
    Unavailable(#[source] Cause),
    /// The connection was lost in COMMIT: the unit is committed, or it is not. Repeat it with the same ids.
    #[error("the outcome of the commit is unknown: {0}")]
    CommitUnknown(#[source] Cause),
    /// A stored value breaks the rules of its column. A person has to look.
    #[error("{table}.{column} of {key} is corrupt: {why}")]
    Corrupt {
        /// Where.
        table: &'static str,
        /// Which column.
        column: &'static str,
        /// Which row.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// Anything else the database refuses: our fault.
    #[error("the database refused a statement: {0}")]
    Backend(#[source] Cause),
}

impl StoreError {
    /// Whether trying the whole unit again may help at once.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StoreError::Transient(_) | StoreError::CommitUnknown(_) | StoreError::Conflict { .. })
    }

    /// Whether the database, not the work, is at fault: an outage is nobody's attempt.
    pub fn is_outage(&self) -> bool {
        matches!(self, StoreError::Transient(_) | StoreError::CommitUnknown(_) | StoreError::Unavailable(_))
    }
}

/// How many rows a conditional write changed. One row is the only proof that a transition happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "whether a row changed is the only proof that the transition happened"]
pub enum Changed {
    /// Exactly one.
    One,
    /// None: the row is not there, or no longer as it was.
    None,
}

impl Changed {
    /// From the number of rows that the write changed: none or one.
    pub fn of(rows: u64) -> Changed {
        if rows == 0 { Changed::None } else { Changed::One }
    }

    /// That exactly one changed; otherwise the unit began from what is no longer there, and is lost.
    pub fn or_conflict(self, what: &str) -> Result<(), StoreError> {
        match self {
            Changed::One => Ok(()),
            Changed::None => Err(StoreError::Conflict { what: what.to_owned() }),
        }
    }
}

/// Begins units of work and views. An application names the types of its own once:
/// `type MarketStore = dyn Store<Unit = dyn MarketUnit, View = dyn MarketView>`.
#[async_trait]
pub trait Store: Send + Sync {
    /// One transaction.
    type Unit: UnitOfWork + ?Sized + 'static;
    /// What is read outside of any.
    type View: View + ?Sized + 'static;

    /// Begins a unit of work.
    ///
    /// - What it writes MUST be invisible to others until [`UnitOfWork::commit`] returned `Ok`, then visible whole.
    /// - Dropping it, or dropping this very future, MUST undo everything, and MUST NOT leave a later unit inside its
    ///   transaction.
    /// - It MUST read what is committed at the time of each statement or of its beginning, and its own writes.
    /// - After a statement failed, `commit` MUST NOT report success.
    async fn begin(&self) -> Result<Box<Self::Unit>, StoreError>;

    /// A view for reading only. It MUST see every unit committed before this call, and MUST NOT hold up writers.
    async fn view(&self) -> Result<Box<Self::View>, StoreError>;
}

/// A store of whose units the outbox alone is known: what relay, drainer and operations ask for.
pub type OutboxStore = dyn Store<Unit = dyn UnitOfWork, View = dyn View>;

/// Everything that can be read of the outbox: events, what consumers did with them, dead letters, relays, operators.
pub trait OutboxView:
    OutboxQueries + HistoryQueries + ConsumeQueries + DeadLetterQueries + LeaseQueries + AuditQueries
{
}

impl<T> OutboxView for T where
    T: OutboxQueries
        + HistoryQueries
        + ConsumeQueries
        + DeadLetterQueries
        + LeaseQueries
        + AuditQueries
        + ?Sized
{
}

/// Everything that can be read and written of the outbox, in one unit of work.
pub trait OutboxUnit:
    OutboxView + OutboxRepo + HistoryRepo + ConsumeLog + DeadLetterRepo + LeaseRepo + AuditRepo
{
}

impl<T> OutboxUnit for T where
    T: OutboxView + OutboxRepo + HistoryRepo + ConsumeLog + DeadLetterRepo + LeaseRepo + AuditRepo + ?Sized
{
}

/// What is read outside of any transaction.
pub trait View: Send {
    /// What can be read of the outbox.
    fn outbox_view(&mut self) -> &mut dyn OutboxView;
}

/// One transaction: it *has* an outbox, beside whatever else an application keeps in it. Dropping it undoes everything.
#[async_trait]
pub trait UnitOfWork: View {
    /// The outbox, in this very transaction.
    fn outbox(&mut self) -> &mut dyn OutboxUnit;

    /// Makes everything visible and durable, or nothing.
    ///
    /// `Ok` MUST mean durable. [`StoreError::CommitUnknown`] is the only error after which it may have happened.
    /// A commit that appended events MUST wake the relay of this process (`Wake`).
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Forgets what the units of a store can do beyond the outbox.
pub fn outbox_of<S: Store + ?Sized + 'static>(store: &Arc<S>) -> Arc<OutboxStore> {
    Arc::new(Erased(Arc::clone(store)))
}

/// A store, a unit or a view behind its pointer, which can be made a `dyn` of.
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

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }
}
