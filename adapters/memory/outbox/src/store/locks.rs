//! Row locks: exclusive, held until their unit ends.
//!
//! **Invariant:** a unit waits for at most one other, so a deadlock is a cycle found by following single steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use handover_application::ports::{EffectKind, IdKind, RequestScope};
use handover_domain::{
    Asset, CouponId, OperationKey, OrderId, PaymentId, ProductId, Purse, RefundId, UserId,
};
use handover_events::{EventId, Partition, TenantId};
use handover_outbox::ports::{RelayId, StoreError};
use tokio::sync::Notify;

use super::unit::MemoryUnit;
use super::{Shared, transient};

/// How long a statement waits for row locks before it gives up.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What can be locked: rows and the entries of unique keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lock {
    Product(ProductId),
    Order(OrderId),
    Payment(PaymentId),
    PaymentInProcessing(TenantId, OrderId),
    GatewayTransaction(String),
    Event(EventId),
    Consumption(String, EventId),
    Subscription(String),
    DeadLetter(String, String),
    Listing(TenantId, UserId, ProductId),
    Credit(TenantId, UserId),
    Effect(EffectKind, TenantId, OrderId, String),
    Refund(RefundId),
    RefundOfPayment(PaymentId),
    Request(RequestScope),
    Coupon(CouponId),
    Hold(TenantId, OrderId, Asset),
    Balance(TenantId, UserId, Purse),
    Operation(TenantId, OperationKey),
    Relay(RelayId),
    Partition(Partition),
    IdBlock(IdKind),
}

/// One run of one unit; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnitId(pub(super) u64);

/// Who holds what, and who waits for whom.
#[derive(Debug, Default)]
pub(super) struct LockTable {
    holders: BTreeMap<Lock, Holder>,
    waiting_for: BTreeMap<UnitId, UnitId>,
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

impl LockTable {
    fn take(&mut self, lock: &Lock, unit: UnitId, ended: &Arc<Notify>) -> Taken {
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
    pub(super) fn release(&mut self, held: Vec<Lock>, ended: &Notify) {
        for lock in &held {
            self.holders.remove(lock);
        }
        ended.notify_waiters();
    }
}

/// Says who waits for as long as it does, also when its future is dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    unit: UnitId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.state().locks.waiting_for.remove(&self.unit);
    }
}

impl MemoryUnit {
    /// Takes locks in the order given, and waits for those that other units hold.
    pub(super) async fn take_locks(&mut self, locks: Vec<Lock>) -> Result<(), StoreError> {
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
