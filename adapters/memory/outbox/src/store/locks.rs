//! Row locks: exclusive, held until their unit ends.
//!
//! **Invariant:** a unit waits for at most one other, so a deadlock is a cycle found by following single steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use handover_events::{EventId, Partition};
use handover_outbox::ports::{RelayId, StoreError};
use tokio::sync::Notify;

use super::statement::Tables;
use super::unit::MemoryUnit;
use super::{Shared, transient};

/// How long a statement waits for row locks before it gives up.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What of the outbox can be locked: rows and the entries of unique keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lock {
    Event(EventId),
    Consumption(String, EventId),
    Subscription(String),
    DeadLetter(String, String),
    Relay(RelayId),
    Partition(Partition),
}

/// What a unit can lock: one table of locks for both halves, so that a deadlock across them is found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AnyLock<L> {
    Outbox(Lock),
    /// Of the application.
    Own(L),
}

/// One run of one unit; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnitId(pub(super) u64);

/// Who holds what, and who waits for whom.
#[derive(Debug)]
pub(super) struct LockTable<L> {
    holders: BTreeMap<AnyLock<L>, Holder>,
    waiting_for: BTreeMap<UnitId, UnitId>,
}

impl<L> Default for LockTable<L> {
    fn default() -> Self {
        LockTable { holders: BTreeMap::new(), waiting_for: BTreeMap::new() }
    }
}

#[derive(Debug, Clone)]
struct Holder {
    unit: UnitId,
    ended: Arc<Notify>,
}

enum Taken {
    Now,
    Already,
    Busy(Arc<Notify>),
    Deadlock,
}

impl<L: Clone + Ord> LockTable<L> {
    fn take(&mut self, lock: &AnyLock<L>, unit: UnitId, ended: &Arc<Notify>) -> Taken {
        let Some(holder) = self.holders.get(lock) else {
            self.holders.insert(lock.clone(), Holder { unit, ended: ended.clone() });
            return Taken::Now;
        };
        if holder.unit == unit {
            return Taken::Already;
        }
        let mut next = Some(holder.unit);
        while let Some(other) = next {
            if other == unit {
                return Taken::Deadlock;
            }
            next = self.waiting_for.get(&other).copied();
        }
        self.waiting_for.insert(unit, holder.unit);
        Taken::Busy(holder.ended.clone())
    }

    /// Frees what an ended unit held, and wakes who waits for it in the order in which they began to.
    pub(super) fn release(&mut self, held: Vec<AnyLock<L>>, ended: &Notify) {
        for lock in &held {
            self.holders.remove(lock);
        }
        ended.notify_waiters();
    }
}

/// Says who waits for as long as it does, also when its future is dropped.
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
    /// Takes locks in the order given, and waits for those that other units hold.
    pub(super) async fn take_locks(&mut self, locks: Vec<AnyLock<X::Lock>>) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let mut gives_up = None;
        for lock in locks {
            loop {
                let freed = {
                    let mut state = shared.state();
                    match state.locks.take(&lock, self.id, &self.ended) {
                        Taken::Already => break,
                        Taken::Now => {
                            self.held.push(lock);
                            break;
                        }
                        Taken::Deadlock => return Err(transient("deadlock")),
                        // Made before the state is let go: no end of that unit can be missed.
                        Taken::Busy(ended) => ended.notified_owned(),
                    }
                };
                let _waiting = Waiting { shared: &shared, unit: self.id };
                let gives_up = gives_up.get_or_insert_with(|| shared.clock.sleep(LOCK_WAIT));
                tokio::select! {
                    biased;
                    () = freed => {}
                    () = gives_up => return Err(transient("lock timeout")),
                }
            }
        }
        Ok(())
    }
}
