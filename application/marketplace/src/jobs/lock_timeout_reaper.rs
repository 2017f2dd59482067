//! The reaper of locks that nobody ended (004 "LockTimeoutReaperJob").
//!
//! **Invariant:** the lock of an order that was paid is never released: its lost commit is sent again instead. A release
//! by the reaper has the key of every other release of that lock, so a lock ends once.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus};
use marketplace_domain::{
    AggregateType, CancelCause, EventBody, Hold, HoldStatus, Order, OrderAction, OrderActor, OrderStatus,
};
use tracing::{info, warn};

use super::ConsistencySettings;
use crate::assets::{Books, Cause, Done, Subject, Wanted};
use crate::consistency::confirmed_body;
use crate::mutants::{Mutant, planted};
use crate::ports::Work;
use crate::use_cases::{UseCaseError, transition};
use crate::{Actor, Announcer, App, CommandContext};
use handover_events::Trace;
use handover_outbox::history::{self, RedrivenBy};
use handover_outbox::ports::{Changed, OutboxRow, Redrive, StoreError};
use handover_outbox::with_tx;

/// The reaper, as the acting part of the service.
const REAPER: Actor = Actor::System("lock-timeout-reaper");

/// What became of the locks that the reaper looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Released just now.
    pub released: u64,
    /// Orders closed just now, because a lock of theirs was that old.
    pub closed: u64,
    /// Lost commits sent again.
    pub sent_again: u64,
    /// Coupons written down as expired.
    pub expired: u64,
}

/// What became of one lock.
enum End {
    Released { closed: bool, key: Option<String> },
    SentAgain(EventId),
    LeftAlone,
}

/// Reaps locks.
pub struct LockTimeoutReaper {
    app: App,
    settings: ConsistencySettings,
}

impl LockTimeoutReaper {
    /// A reaper with these settings.
    pub fn new(app: App, settings: ConsistencySettings) -> LockTimeoutReaper {
        LockTimeoutReaper { app, settings }
    }

    /// Reaps at once and then at every interval until the process stops.
    pub async fn run(self) {
        let stopping = self.app.tx.tasks.stopping().clone();
        while !stopping.is_cancelled() {
            if let Err(error) = self.reap().await {
                warn!(%error, "[LockTimeoutReaper] failed; it comes again");
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.app.tx.clock.sleep(self.settings.reaper_interval) => {}
            }
        }
    }

    /// Looks at every lock that is too old.
    pub async fn reap(&self) -> Result<Reaped, UseCaseError> {
        let now = self.app.now();
        let line = TimeDelta::from_std(self.settings.lock_timeout)
            .ok()
            .and_then(|age| now.checked_sub_signed(age))
            .unwrap_or_default();
        let mut reaped = Reaped::default();
        let mut after = None;
        loop {
            let batch = self.settings.batch.get();
            let holds = self.app.view().await?.holds_frozen(line, after, batch).await?;
            let Some(last) = holds.last() else { break };
            after = Some((last.create_time, last.order, last.asset));
            for hold in &holds {
                if self.app.tx.tasks.stopping().is_cancelled() {
                    return Ok(reaped);
                }
                match self.end(hold, line).await {
                    Ok(end) => self.tell(hold, &end, now, &mut reaped),
                    // One lock that cannot be ended must not keep the others.
                    Err(error) => warn!(%error, orderId = %hold.order, asset = %hold.asset,
                        "[LockTimeoutReaper] a lock was not looked at"),
                }
            }
        }
        reaped.expired = self.expire_coupons(now).await?;
        Ok(reaped)
    }

    fn tell(&self, hold: &Hold, end: &End, now: DateTime<Utc>, reaped: &mut Reaped) {
        let age_s = now.signed_duration_since(hold.create_time).num_seconds();
        match end {
            End::Released { closed, key } => {
                reaped.released += 1;
                reaped.closed += u64::from(*closed);
                metrics::counter!("reaper.lock.released").increment(1);
                info!(orderId = %hold.order, asset = %hold.asset, ageSeconds = age_s, idempotencyKey = key,
                    amount = hold.asset.show(hold.amount), orderClosed = closed,
                    "[LockTimeoutReaper] a lock was released");
            }
            End::SentAgain(event) => {
                reaped.sent_again += 1;
                warn!(orderId = %hold.order, asset = %hold.asset, ageSeconds = age_s, eventId = %event,
                    "[LockTimeoutReaper] the order is paid and its lock is not committed: its event is sent again");
            }
            End::LeftAlone => {}
        }
    }

    async fn end(&self, hold: &Hold, line: DateTime<Utc>) -> Result<End, UseCaseError> {
        let context = CommandContext {
            actor: REAPER,
            tenant: hold.tenant,
            trace: Trace { trace_id: format!("reaper-{}", hold.order), traceparent: None },
            idempotency: None,
        };
        let announcer = self.app.announcer(&context, 1);
        let (app, seen) = (self.app.clone(), hold.clone());
        with_tx(&self.app.tx, move |unit, _| {
            let (app, seen, announcer) = (app.clone(), seen.clone(), announcer.clone());
            Box::pin(async move {
                let order = unit.order_by_id(seen.tenant, seen.order).await?;
                if let Some(order) = &order
                    && is_live(order)
                    && !planted(Mutant::ReaperIgnoresPaid)
                {
                    return send_again(unit, &app, order, &seen).await;
                }
                let trace = transition::trace_of_order(unit, seen.tenant, seen.order).await?;
                let announcer = announcer.continuing(trace.as_ref());
                let closed = match &order {
                    Some(order) if order.status == OrderStatus::Pending => {
                        let cause = CancelCause::Timeout { created_by: line };
                        let cancel = OrderAction::Cancel(cause);
                        transition::apply(unit, order, &cancel, OrderActor::System, &announcer, 0).await?;
                        true
                    }
                    Some(_) | None => false,
                };
                release(unit, &app, &seen, closed, &announcer).await
            })
        })
        .await
    }

    /// Writes down what has expired, so that nobody counts on it.
    async fn expire_coupons(&self, now: DateTime<Utc>) -> Result<u64, UseCaseError> {
        let mut expired = 0;
        loop {
            let coupons = self.app.view().await?.coupons_expired(now, self.settings.batch.get()).await?;
            if coupons.is_empty() || self.app.tx.tasks.stopping().is_cancelled() {
                return Ok(expired);
            }
            let done = with_tx(&self.app.tx, move |unit, _| {
                let coupons = coupons.clone();
                Box::pin(async move {
                    let mut done = 0;
                    for coupon in coupons.iter().filter_map(|coupon| coupon.expire(now)) {
                        done += u64::from(unit.advance_coupon(&coupon).await? == Changed::One);
                    }
                    Ok::<_, StoreError>(done)
                })
            })
            .await?;
            if done == 0 {
                return Ok(expired);
            }
            expired += done;
        }
    }
}

/// Whether the order was paid: its locks are to be committed, whatever their age.
fn is_live(order: &Order) -> bool {
    match order.status {
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed | OrderStatus::Refunded => true,
        OrderStatus::Pending | OrderStatus::Cancelled => false,
    }
}

async fn release(
    unit: &mut Work,
    app: &App,
    seen: &Hold,
    closed: bool,
    announcer: &Announcer,
) -> Result<End, UseCaseError> {
    let subject = Subject { tenant: seen.tenant, order: seen.order, user: seen.user, asset: seen.asset };
    let mut wanted = Wanted::default();
    wanted.orders.insert((seen.tenant, seen.order));
    wanted.users.insert((seen.tenant, seen.user));
    let mut books = Books::open(unit, seen.asset, wanted, app.now()).await?;
    let still_frozen =
        books.hold((seen.tenant, seen.order)).is_some_and(|hold| hold.status == HoldStatus::Frozen);
    if !still_frozen {
        return Ok(End::LeftAlone);
    }
    let cause = Cause { event_id: None, trace_id: Some(announcer.trace_id().to_owned()) };
    let done = books.release(subject, &cause)?;
    books.write(unit).await?;
    Ok(match done {
        Done::Now(operation) => End::Released { closed, key: Some(operation.key.to_string()) },
        Done::Before(_) | Done::Nothing(_) => End::LeftAlone,
    })
}

/// Publishes the event again that should have ended this lock, if it is not on its way. That there is none, the
/// consistency repair sees.
async fn send_again(unit: &mut Work, app: &App, order: &Order, seen: &Hold) -> Result<End, UseCaseError> {
    let aggregate = AggregateRef {
        tenant: order.tenant,
        kind: AggregateType::Order.as_str().to_owned(),
        id: order.id.get(),
    };
    let rows = unit.outbox().outbox_about(std::slice::from_ref(&aggregate)).await?;
    // A row inserted by hand may say what the order contradicts.
    let is_paid = |row: &&OutboxRow| matches!(confirmed_body(row, order), Some(EventBody::OrderPaid(_)));
    let Some(paid) = rows.iter().find(is_paid) else { return Ok(End::LeftAlone) };
    let record = unit.outbox().consumption(seen.asset.as_str(), &paid.event_id).await?;
    // One that was tried is tried again by itself, one that was parked waits for a person, and one that was applied did
    // not do what it says: that is for the reconciliation to tell.
    let is_known = record.is_some();
    let is_settled = match paid.status {
        OutboxStatus::Sent | OutboxStatus::Failed => true,
        OutboxStatus::New | OutboxStatus::Retry => false,
    };
    if is_known || !is_settled {
        return Ok(End::LeftAlone);
    }
    let now = app.now();
    let redrive = Redrive { event_id: paid.event_id.clone(), due: now };
    let actor = REAPER.to_string();
    let by = RedrivenBy { actor: &actor, reason: None };
    let moved = history::redrive(unit.outbox(), &[redrive], by, now).await?;
    Ok(if moved > 0 { End::SentAgain(paid.event_id.clone()) } else { End::LeftAlone })
}
