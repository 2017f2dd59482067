//! The lock reaper: releases asset locks that were neither committed nor released in time.
//!
//! **Invariant:** the reaper never releases the lock of an order that was paid. If the consumer has no record of the
//! ORDER_PAID event, the reaper redrives the event. A release by the reaper has the same key as any other release of
//! the lock, so a lock is released once.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus};
use marketplace_domain::{
    AggregateType, CancelCause, EventBody, Hold, HoldStatus, Order, OrderAction, OrderActor, OrderRefusal,
    OrderStatus,
};
use tracing::{info, warn};

use super::ConsistencySettings;
use crate::assets::{AssetAccounts, AssetOutcome, Cause, RowSelection, Subject};
use crate::consistency::AboutEvents;
use crate::context::{Actor, CommandContext};
use crate::error::UseCaseError;
use crate::events::{EventFactory, EventSource};
use crate::ports::{ExpiredCoupon, FrozenHold, MarketTransactor, Work};
use crate::use_cases::transition;
use handover_events::Trace;
use handover_outbox::history::{self, RedrivenBy};
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Changed, Leadership, OutboxRow, Redrive, StoreError};
use handover_outbox::with_tx;

/// Actor of the reaper in events and in the outbox history.
const REAPER: Actor = Actor::System("lock-timeout-reaper");

/// Result of one reaper run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReaperReport {
    pub released: u64,
    /// Number of pending orders cancelled because of an expired lock.
    pub closed: u64,
    /// Number of redriven ORDER_PAID events.
    pub redriven: u64,
    /// Number of coupons set to `EXPIRED`.
    pub expired: u64,
}

/// Result for one lock.
enum LockOutcome {
    Released { closed: bool, key: String, amount: i64 },
    Redriven(EventId),
    Unchanged,
}

pub struct LockTimeoutReaper {
    pub tx: MarketTransactor,
    pub events: EventSource,
    pub settings: ConsistencySettings,
}

impl LockTimeoutReaper {
    /// Starts the reaper on the leader: the reapers of several processes would read the same locks.
    pub fn start(self, leader: &Leader) {
        let tx = self.tx.outbox();
        Periodic::new("LockTimeoutReaper", self.settings.reaper_interval, RunBy::Leader(leader.clone()))
            .start(&tx, self);
    }

    /// Processes every lock that is older than the timeout, then the expired coupons.
    pub async fn reap(&self) -> Result<ReaperReport, StoreError> {
        let now = self.tx.now();
        let cutoff = TimeDelta::from_std(self.settings.lock_timeout)
            .ok()
            .and_then(|age| now.checked_sub_signed(age))
            .unwrap_or_default();
        let mut reaped = ReaperReport::default();
        let mut after = None;
        loop {
            let batch = self.settings.batch.get();
            let holds = self.tx.view().await?.holds_frozen(cutoff, after, batch).await?;
            let Some(last) = holds.last() else { break };
            after = Some(last.position());
            for hold in &holds {
                if self.tx.stopping().is_cancelled() {
                    return Ok(reaped);
                }
                match self.process(hold, cutoff).await {
                    Ok(outcome) => self.record(hold, &outcome, now, &mut reaped),
                    // An error with one lock must not stop the run.
                    Err(error) => {
                        warn!(code = "reaper.lock-not-processed", %error, orderId = %hold.order, asset = %hold.asset,
                        "[LockTimeoutReaper] lock not processed; retrying in the next run")
                    }
                }
            }
        }
        reaped.expired = self.expire_coupons(now).await?;
        Ok(reaped)
    }

    fn record(
        &self,
        hold: &FrozenHold,
        outcome: &LockOutcome,
        now: DateTime<Utc>,
        reaped: &mut ReaperReport,
    ) {
        let age_s = now.signed_duration_since(hold.create_time).num_seconds();
        match outcome {
            LockOutcome::Released { closed, key, amount } => {
                reaped.released += 1;
                reaped.closed += u64::from(*closed);
                metrics::counter!("reaper.lock.released").increment(1);
                info!(code = "reaper.lock-released", orderId = %hold.order, asset = %hold.asset, ageSeconds = age_s, idempotencyKey = key,
                    amount = hold.asset.show(*amount), orderClosed = closed,
                    result = "released",
                    "[LockTimeoutReaper] lock released");
            }
            LockOutcome::Redriven(event) => {
                reaped.redriven += 1;
                warn!(code = "reaper.event-redriven", orderId = %hold.order, asset = %hold.asset, ageSeconds = age_s, eventId = %event,
                    "[LockTimeoutReaper] order is paid but its lock is not committed; event redriven");
            }
            LockOutcome::Unchanged => {}
        }
    }

    async fn process(
        &self,
        hold: &FrozenHold,
        cutoff: DateTime<Utc>,
    ) -> Result<LockOutcome, UseCaseError<OrderRefusal>> {
        let context = CommandContext {
            actor: REAPER,
            tenant: hold.tenant,
            trace: Trace { trace_id: format!("reaper-{}", hold.order), traceparent: None },
            request_id: None,
        };
        let event_factory = self.events.factory(&context, 1);
        with_tx(&self.tx, (*hold, event_factory), move |unit, (frozen, event_factory), _| {
            Box::pin(async move {
                let holds = unit.holds_of(frozen.tenant, &[frozen.order]).await?;
                let Some(seen) = holds.iter().find(|hold| hold.asset == frozen.asset) else {
                    return Ok(LockOutcome::Unchanged);
                };
                let order = unit.order_by_id(seen.tenant, seen.order).await?;
                if let Some(order) = &order
                    && was_paid(order)
                {
                    return Ok(redrive_paid(unit, order, seen, event_factory.now).await?);
                }
                let placed = transition::creation_of_order(unit, seen.tenant, seen.order).await?;
                let event_factory = event_factory.in_request_of(placed.as_ref());
                let closed = match &order {
                    Some(order) if order.status == OrderStatus::Pending => {
                        let cause = CancelCause::Timeout { created_by: cutoff };
                        let cancel = OrderAction::Cancel(cause);
                        transition::apply(unit, order, &cancel, OrderActor::System, &event_factory, 0)
                            .await?;
                        true
                    }
                    Some(_) | None => false,
                };
                release(unit, seen, closed, &event_factory).await
            })
        })
        .await
    }

    /// Sets expired coupons to `EXPIRED`. Returns their number.
    async fn expire_coupons(&self, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut expired = 0;
        let mut after = None;
        loop {
            let batch = self.settings.batch.get();
            let coupons = self.tx.view().await?.coupons_expired(now, after, batch).await?;
            let Some(last) = coupons.last() else { return Ok(expired) };
            after = Some(last.position());
            for coupon in &coupons {
                if self.tx.stopping().is_cancelled() {
                    return Ok(expired);
                }
                match self.expire(coupon, now).await {
                    Ok(changed) => expired += u64::from(changed == Changed::One),
                    // An error with one coupon must not stop the run.
                    Err(error) => {
                        warn!(code = "reaper.coupon-not-expired", %error, couponId = %coupon.id,
                        "[LockTimeoutReaper] coupon not set to EXPIRED; retrying in the next run")
                    }
                }
            }
        }
    }

    async fn expire(&self, coupon: &ExpiredCoupon, now: DateTime<Utc>) -> Result<Changed, StoreError> {
        with_tx(&self.tx, *coupon, move |unit, coupon, _| {
            Box::pin(async move {
                let seen = unit.coupon_by_id(coupon.tenant, coupon.id).await?;
                match seen.and_then(|seen| seen.expire(now)) {
                    Some(expired) => unit.advance_coupon(&expired).await,
                    None => Ok(Changed::None),
                }
            })
        })
        .await
    }
}

#[async_trait]
impl Job for LockTimeoutReaper {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        self.reap().await?;
        Ok(Progress::Done)
    }
}

/// Whether the order was paid. The locks of a paid order must be committed, regardless of their age.
fn was_paid(order: &Order) -> bool {
    match order.status {
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed | OrderStatus::Refunded => true,
        OrderStatus::Pending | OrderStatus::Cancelled => false,
    }
}

async fn release(
    unit: &mut Work,
    seen: &Hold,
    closed: bool,
    event_factory: &EventFactory,
) -> Result<LockOutcome, UseCaseError<OrderRefusal>> {
    let subject = Subject { tenant: seen.tenant, order: seen.order, user: seen.user, asset: seen.asset };
    let mut selection = RowSelection::default();
    selection.orders.insert((seen.tenant, seen.order));
    selection.users.insert((seen.tenant, seen.user));
    let mut accounts = AssetAccounts::open(unit, seen.asset, selection, event_factory.now).await?;
    let still_frozen =
        accounts.hold((seen.tenant, seen.order)).is_some_and(|hold| hold.status == HoldStatus::Frozen);
    if !still_frozen {
        return Ok(LockOutcome::Unchanged);
    }
    let cause = Cause { event_id: None, trace_id: Some(event_factory.trace_id().to_owned()) };
    let outcome = accounts.release(subject, &cause)?;
    accounts.write(unit).await?;
    Ok(match outcome {
        AssetOutcome::Applied(operation) => {
            LockOutcome::Released { closed, key: operation.key.to_string(), amount: operation.amount }
        }
        AssetOutcome::AlreadyApplied(_) | AssetOutcome::Skipped(_) => LockOutcome::Unchanged,
    })
}

/// Redrives the ORDER_PAID event that should have committed this lock, unless the event is still being published or the
/// consumer has a record of it. The consistency repair appends a missing event.
async fn redrive_paid(
    unit: &mut Work,
    order: &Order,
    seen: &Hold,
    now: DateTime<Utc>,
) -> Result<LockOutcome, StoreError> {
    let aggregate = AggregateRef {
        tenant: order.tenant,
        kind: AggregateType::Order.as_str().to_owned(),
        id: order.id.get().into(),
    };
    let rows = unit.outbox().outbox_about(std::slice::from_ref(&aggregate)).await?;
    // A manually inserted row may contradict the order; such a row is ignored.
    let is_paid = |row: &&OutboxRow| {
        matches!(AboutEvents::Order(order).confirmed_body(row), Some(EventBody::OrderPaid(_)))
    };
    let Some(paid) = rows.iter().find(is_paid) else { return Ok(LockOutcome::Unchanged) };
    let record = unit.outbox().consumption(seen.asset.as_str(), &paid.event_id).await?;
    // With a consume-log record, a redrive has no effect: the consumer retries a failed event, a dead letter waits for an
    // operator, and an applied event without its effect is reported by reconciliation.
    let has_record = record.is_some();
    let is_settled = match paid.status {
        OutboxStatus::Sent | OutboxStatus::Failed => true,
        OutboxStatus::New | OutboxStatus::Retry => false,
    };
    if has_record || !is_settled {
        return Ok(LockOutcome::Unchanged);
    }
    let redrive = Redrive { event_id: paid.event_id.clone(), due: now };
    let actor = REAPER.to_string();
    let by = RedrivenBy { actor: &actor, reason: None };
    let moved = history::redrive(unit.outbox(), &[redrive], by, now).await?;
    Ok(if moved > 0 { LockOutcome::Redriven(paid.event_id.clone()) } else { LockOutcome::Unchanged })
}
