//! The unit of work: its statements, its commit and its end.
//!
//! **Invariant:** a statement takes all its locks before it changes anything, and then changes everything in one step:
//! dropped while it waits, it has changed nothing.

use std::mem;
use std::sync::Arc;

use crate::turn::yield_now;
use async_trait::async_trait;
use handover_events::Partition;
use handover_outbox::Wake;
use handover_outbox::ports::{OutboxUnit, OutboxView, StoreError, UnitOfWork, View};
use tokio::sync::Notify;

use super::Shared;
use super::locks::{Lock, UnitId};
use super::statement::{Changes, Statement};

/// One transaction.
pub(super) struct MemoryUnit {
    pub(super) shared: Arc<Shared>,
    pub(super) id: UnitId,
    /// The locks it holds, to be freed at its end.
    pub(super) held: Vec<Lock>,
    /// Told when it ends.
    pub(super) ended: Arc<Notify>,
    /// Of the events it appended.
    pub(super) appended: Vec<Partition>,
    changes: Changes,
    failed: bool,
    wake: Wake,
}

impl MemoryUnit {
    pub(super) fn new(shared: Arc<Shared>, wake: Wake, id: UnitId) -> MemoryUnit {
        MemoryUnit {
            shared,
            id,
            held: Vec::new(),
            ended: Arc::default(),
            appended: Vec::new(),
            changes: Changes::default(),
            failed: false,
            wake,
        }
    }

    /// A statement that only reads.
    pub(super) async fn read<T>(
        &mut self,
        work: impl FnOnce(&Statement<'_>) -> T + Send,
    ) -> Result<T, StoreError> {
        self.write(Vec::new(), |statement| Ok(work(statement))).await
    }

    /// A statement that writes: takes the locks, then works on what is committed by then. An error fails the unit.
    pub(super) async fn write<T>(
        &mut self,
        locks: Vec<Lock>,
        work: impl FnOnce(&mut Statement<'_>) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError> {
        yield_now().await;
        self.check()?;
        let result = match self.take_locks(locks).await {
            Ok(()) => {
                let mut state = self.shared.state();
                work(&mut Statement::new(&mut state, &mut self.changes, &*self.shared.clock))
            }
            Err(error) => Err(error),
        };
        self.failed = result.is_err();
        result
    }

    /// As PostgreSQL does, refuses everything after a failed statement: what passes here passes everywhere.
    fn check(&self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Backend("an earlier statement of this unit failed".into()));
        }
        Ok(())
    }
}

impl View for MemoryUnit {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self
    }
}

#[async_trait]
impl UnitOfWork for MemoryUnit {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self
    }

    async fn commit(mut self: Box<Self>) -> Result<(), StoreError> {
        yield_now().await;
        self.check()?;
        let changes = mem::take(&mut self.changes);
        let held = mem::take(&mut self.held);
        {
            let mut state = self.shared.state();
            changes.apply(&mut state.tables);
            state.locks.release(held, &self.ended);
        }
        if !self.appended.is_empty() {
            self.wake.ring(self.appended.iter().copied().collect());
        }
        // From here on it is committed, also if nobody waits for the answer.
        yield_now().await;
        Ok(())
    }
}

impl Drop for MemoryUnit {
    fn drop(&mut self) {
        let held = mem::take(&mut self.held);
        if !held.is_empty() {
            self.shared.state().locks.release(held, &self.ended);
        }
    }
}
