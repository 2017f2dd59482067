//! The unit of work: statements, commit and rollback.
//!
//! **Invariant:** a statement acquires all its locks before it changes anything, and then applies all changes in one step.
//! A statement cancelled while it waits for locks changes nothing.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::yield_now::yield_now;
use async_trait::async_trait;
use handover_events::Partition;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Clock, OutboxUnit, OutboxView, StoreError, UnitOfWork, View};
use tokio::sync::Notify;

use super::errors::transient;
use super::locks::{AnyLock, Lock, LockAttempt, UnitId};
use super::outbox_tables::{OutboxChanges, OutboxTables};
use super::shared::{Shared, State};
use super::statement::{Statement, Tables};

/// Lock timeout of a statement.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// A unit of work on the outbox and on the tables of an application. Dropping it rolls it back.
pub struct MemoryUnit<X: Tables = ()> {
    pub(super) shared: Arc<Shared<X>>,
    pub(super) id: UnitId,
    /// The locks that the unit of work holds; released when it ends.
    pub(super) held: Vec<AnyLock<X::Lock>>,
    /// Wakes the units of work that wait for a lock of this one, when this one ends.
    pub(super) ended: Arc<Notify>,
    /// The partitions of appended, redriven and released rows, to notify their relays after the commit.
    pub(super) appended: Vec<Partition>,
    changes: Changes<X>,
    failed: bool,
    /// Whether the caller allowed deferred writes; this store makes every write at once.
    defers_writes: bool,
    wake: WakeupNotifier,
}

/// Uncommitted changes that a unit of work made in the tables of the outbox and of the application.
struct Changes<X: Tables> {
    outbox: OutboxChanges,
    own: X::Changes,
}

impl<X: Tables> Default for Changes<X> {
    fn default() -> Self {
        Changes { outbox: OutboxChanges::default(), own: X::Changes::default() }
    }
}

impl<X: Tables> MemoryUnit<X> {
    pub(super) fn new(shared: Arc<Shared<X>>, wake: WakeupNotifier, id: UnitId) -> MemoryUnit<X> {
        MemoryUnit {
            shared,
            id,
            held: Vec::new(),
            ended: Arc::default(),
            appended: Vec::new(),
            changes: Changes::default(),
            failed: false,
            defers_writes: false,
            wake,
        }
    }

    /// Runs a statement that only reads the application's tables.
    pub async fn read<T>(
        &mut self,
        work: impl FnOnce(&Statement<'_, X>) -> T + Send,
    ) -> Result<T, StoreError> {
        self.write(Vec::new(), |statement| Ok(work(statement))).await
    }

    /// Runs a statement that writes the application's tables. It acquires the locks in the given order and then sees
    /// the rows committed by then. After an error the unit of work rejects all further statements and the commit.
    pub async fn write<T>(
        &mut self,
        locks: Vec<X::Lock>,
        work: impl FnOnce(&mut Statement<'_, X>) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let locks = locks.into_iter().map(AnyLock::Own).collect();
        self.run(locks, |state, changes, clock| {
            work(&mut Statement::new(&mut state.own, &mut changes.own, clock, state.database_offset))
        })
        .await
    }

    /// Like [`MemoryUnit::read`], for the tables of the outbox.
    pub(super) async fn read_outbox<T>(
        &mut self,
        work: impl FnOnce(&Statement<'_, OutboxTables>) -> T + Send,
    ) -> Result<T, StoreError> {
        self.write_outbox(Vec::new(), |statement| Ok(work(statement))).await
    }

    /// Like [`MemoryUnit::write`], for the tables of the outbox.
    pub(super) async fn write_outbox<T>(
        &mut self,
        locks: Vec<Lock>,
        work: impl FnOnce(&mut Statement<'_, OutboxTables>) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        let locks = locks.into_iter().map(AnyLock::Outbox).collect();
        self.run(locks, |state, changes, clock| {
            work(&mut Statement::new(&mut state.outbox, &mut changes.outbox, clock, state.database_offset))
        })
        .await
    }

    /// Acquires those of these locks that no other unit of work holds, without waiting. Returns them.
    pub(super) async fn lock_free(&mut self, locks: Vec<Lock>) -> Result<Vec<Lock>, StoreError> {
        yield_now().await;
        self.check()?;
        let mut free = Vec::new();
        for lock in locks {
            if self.try_lock(AnyLock::Outbox(lock.clone())) {
                free.push(lock);
            }
        }
        Ok(free)
    }

    /// Acquires this lock of the application if no other unit of work holds it, without waiting.
    pub async fn lock_if_free(&mut self, lock: X::Lock) -> Result<bool, StoreError> {
        yield_now().await;
        self.check()?;
        Ok(self.try_lock(AnyLock::Own(lock)))
    }

    fn try_lock(&mut self, lock: AnyLock<X::Lock>) -> bool {
        let attempt = self.shared.state().locks.try_take(&lock, self.id, &self.ended);
        match attempt {
            LockAttempt::Acquired => {
                self.held.push(lock);
                true
            }
            LockAttempt::AlreadyHeld => true,
            LockAttempt::Busy(_) | LockAttempt::Deadlock => false,
        }
    }

    async fn run<T>(
        &mut self,
        locks: Vec<AnyLock<X::Lock>>,
        work: impl FnOnce(&mut State<X>, &mut Changes<X>, &dyn Clock) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        yield_now().await;
        self.check()?;
        let result = match self.take_locks(locks).await {
            Ok(()) => {
                let mut state = self.shared.state();
                work(&mut state, &mut self.changes, &*self.shared.clock)
            }
            Err(error) => Err(error),
        };
        self.failed = result.is_err();
        result
    }

    /// Rejects everything after a failed statement, like PostgreSQL, the strictest of the supported engines.
    fn check(&self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Backend("an earlier statement of this unit of work failed".into()));
        }
        Ok(())
    }
}

/// Registers a waiting unit of work; unregisters it when the wait ends or its future is dropped.
struct Waiting<'a, X: Tables> {
    shared: &'a Shared<X>,
    unit: UnitId,
}

impl<X: Tables> Drop for Waiting<'_, X> {
    fn drop(&mut self) {
        self.shared.state().locks.waiting_for.remove(&self.unit);
    }
}

impl<X: Tables> MemoryUnit<X> {
    /// Acquires locks in the given order, and waits for those held by other units of work.
    async fn take_locks(&mut self, locks: Vec<AnyLock<X::Lock>>) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let mut timeout = None;
        for lock in locks {
            loop {
                let freed = {
                    let mut state = shared.state();
                    match state.locks.take(&lock, self.id, &self.ended) {
                        LockAttempt::AlreadyHeld => break,
                        LockAttempt::Acquired => {
                            self.held.push(lock);
                            break;
                        }
                        LockAttempt::Deadlock => return Err(transient("deadlock")),
                        // The future is created while the state is locked, so that the end of the unit of work that
                        // holds the lock is not missed.
                        LockAttempt::Busy(ended) => ended.notified_owned(),
                    }
                };
                let _waiting = Waiting { shared: &shared, unit: self.id };
                let timeout = timeout.get_or_insert_with(|| shared.clock.sleep(LOCK_WAIT));
                tokio::select! {
                    biased;
                    () = freed => {}
                    () = timeout => return Err(transient("lock timeout")),
                }
            }
        }
        Ok(())
    }
}

impl<X: Tables> View for MemoryUnit<X> {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self
    }
}

#[async_trait]
impl<X: Tables> UnitOfWork for MemoryUnit<X> {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self
    }

    fn defer_writes(&mut self) {
        self.defers_writes = true;
    }

    fn defers_writes(&mut self) -> bool {
        self.defers_writes
    }

    async fn commit(mut self: Box<Self>) -> Result<(), StoreError> {
        yield_now().await;
        self.check()?;
        let changes = mem::take(&mut self.changes);
        let held = mem::take(&mut self.held);
        {
            let mut state = self.shared.state();
            state.outbox.tables.apply(changes.outbox);
            state.own.tables.apply(changes.own);
            state.locks.release(held, &self.ended);
        }
        if !self.appended.is_empty() {
            self.wake.notify(self.appended.iter().copied().collect());
        }
        // The unit of work is already committed: a cancellation of the caller at this await does not undo that.
        yield_now().await;
        Ok(())
    }
}

impl<X: Tables> Drop for MemoryUnit<X> {
    fn drop(&mut self) {
        let held = mem::take(&mut self.held);
        if !held.is_empty() {
            self.shared.state().locks.release(held, &self.ended);
        }
    }
}
