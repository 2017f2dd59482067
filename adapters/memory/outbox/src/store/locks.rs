//! Row locks: exclusive, held until the unit of work ends.
//!
//! **Invariant:** a unit of work waits for at most one other unit of work, so a deadlock is found by following a
//! single chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, Partition, TenantId};
use handover_outbox::ports::{EndpointId, RelayId, Resolution};
use tokio::sync::Notify;

/// Lockable objects of the outbox: rows and entries of unique keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lock {
    Event(EventId),
    ArchiveFile(String),
    ArchiveRecord(i64),
    UnrecordedFile(String),
    Sequence(AggregateRef),
    Consumption(String, EventId),
    Subscription(String),
    RegisteredType(String, String),
    DeadLetter(String, String),
    Relay(RelayId),
    Partition(Partition),
    Leader(String),
    Job(String),
    Alert(String),
    ProcessReport(String),
    StatSample((Resolution, DateTime<Utc>, String, String)),
    WebhookEndpoint(EndpointId),
    WebhookSlot(TenantId, u32),
    /// The unique key of a delivery: event, endpoint and redelivery number.
    WebhookKey(EventId, EndpointId, u32),
    WebhookDelivery(i64),
}

/// A lock of the outbox or of the application's tables. One lock table covers both, so that deadlocks across them are
/// detected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AnyLock<L> {
    Outbox(Lock),
    /// A lock of the application's tables.
    Own(L),
}

/// Identifies a unit of work; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnitId(pub(super) u64);

/// The holder of each lock, and the units of work that wait for others.
#[derive(Debug)]
pub(super) struct LockTable<L> {
    holders: BTreeMap<AnyLock<L>, Holder>,
    pub(super) waiting_for: BTreeMap<UnitId, UnitId>,
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

pub(super) enum LockAttempt {
    Acquired,
    AlreadyHeld,
    Busy(Arc<Notify>),
    Deadlock,
}

impl<L: Clone + Ord> LockTable<L> {
    pub(super) fn take(&mut self, lock: &AnyLock<L>, unit: UnitId, ended: &Arc<Notify>) -> LockAttempt {
        let Some(holder) = self.holders.get(lock) else {
            self.holders.insert(lock.clone(), Holder { unit, ended: ended.clone() });
            return LockAttempt::Acquired;
        };
        if holder.unit == unit {
            return LockAttempt::AlreadyHeld;
        }
        let mut next = Some(holder.unit);
        while let Some(other) = next {
            if other == unit {
                return LockAttempt::Deadlock;
            }
            next = self.waiting_for.get(&other).copied();
        }
        self.waiting_for.insert(unit, holder.unit);
        LockAttempt::Busy(holder.ended.clone())
    }

    /// Acquires a lock that no other unit of work holds, without waiting.
    pub(super) fn try_take(&mut self, lock: &AnyLock<L>, unit: UnitId, ended: &Arc<Notify>) -> LockAttempt {
        match self.holders.get(lock) {
            Some(holder) if holder.unit != unit => LockAttempt::Busy(holder.ended.clone()),
            Some(_) | None => self.take(lock, unit, ended),
        }
    }

    /// Releases the locks of an ended unit of work, and notifies its waiters in the order in which they started to
    /// wait.
    pub(super) fn release(&mut self, held: Vec<AnyLock<L>>, ended: &Notify) {
        for lock in &held {
            self.holders.remove(lock);
        }
        ended.notify_waiters();
    }
}
