//! coupon, wallet and points: what an order is paid with beside money (spec §2 "Assets"; seed 004).

use async_trait::async_trait;
use marketplace_domain::{
    Asset, AssetRefusal, CancelCause, EventBody, EventType, OperationKey, Order, OrderAction, OrderActor,
    OrderStatus, Points, RefundId,
};

use super::facts::{Orders, applied_twice, body_of, untaken};
use crate::assets::{Books, Cause, Done, Subject, Wanted};
use crate::mutants::{Mutant, planted};
use crate::ports::Work;
use crate::use_cases::{UseCaseError, transition};
use crate::{Actor, App, CommandContext};
use handover_outbox::consumers::{ALREADY_APPLIED, Applied, Event, Handler, HandlerError};

/// Holds, commits, releases and gives back one kind of asset, and earns points. The natural key of each effect is that of
/// its operation (004), so a second event of the same fact has none.
///
/// Late events: a release that comes before its lock leaves a tombstone, after which the lock does nothing. Whatever
/// comes before the step that it needs (a commit before its lock, a give-back before its commit) is refused, parked where
/// a person sees it, and can be replayed once that step is done. So whatever order they come in, an order's events end
/// in the same balances or wait for a person.
pub struct AssetKeeper {
    app: App,
    asset: Asset,
}

impl AssetKeeper {
    /// The consumer `coupon`.
    pub fn of_coupons(app: App) -> AssetKeeper {
        AssetKeeper { app, asset: Asset::Coupon }
    }

    /// The consumer `wallet`.
    pub fn of_wallets(app: App) -> AssetKeeper {
        AssetKeeper { app, asset: Asset::Wallet }
    }

    /// The consumer `points`.
    pub fn of_points(app: App) -> AssetKeeper {
        AssetKeeper { app, asset: Asset::Points }
    }
}

/// What an event asks for.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// What the order names is to be held.
    Lock,
    /// The order was paid; in money it was so much.
    Commit {
        earned: Points,
    },
    Release,
    GiveBack {
        refund: RefundId,
    },
}

/// An event, what it asks for, and the order that confirms it.
struct Asked<'e> {
    event: &'e Event,
    order: &'e Order,
    step: Step,
}

impl AssetKeeper {
    fn asked<'e>(&self, event: &'e Event, orders: &'e Orders) -> Result<Asked<'e>, HandlerError> {
        let body = body_of(event)?;
        let step = match &body {
            EventBody::OrderCreated(_) => Step::Lock,
            EventBody::OrderPaid(body) => Step::Commit { earned: self.app.rules.points.earned(body.amount) },
            EventBody::OrderCancelled(_) => Step::Release,
            EventBody::OrderRefunded(body) => Step::GiveBack { refund: body.refund },
            EventBody::OrderStatusChanged(_)
            | EventBody::OrderTimeout(_)
            | EventBody::PaymentSucceeded(_)
            | EventBody::PaymentFailed(_)
            | EventBody::RefundSucceeded(_)
            | EventBody::RefundFailed(_)
            | EventBody::InvoiceGenerated(_) => return Err(untaken(event)),
        };
        Ok(Asked { event, order: orders.confirming(event, &body)?, step })
    }

    fn subject(&self, order: &Order) -> Subject {
        Subject { tenant: order.tenant, order: order.id, user: order.buyer, asset: self.asset }
    }

    /// What the books must hold for one event.
    fn want(&self, wanted: &mut Wanted, asked: &Asked<'_>) {
        let subject = self.subject(asked.order);
        let is_named = asked.order.assets.names(self.asset);
        let points = self.asset == Asset::Points;
        let mut keys = Vec::new();
        match asked.step {
            Step::Lock if !is_named => return,
            Step::Lock => {
                let coupon = asked.order.assets.coupon.filter(|_| self.asset == Asset::Coupon);
                wanted.coupons.extend(coupon.map(|coupon| (subject.tenant, coupon.id)));
                keys.push(OperationKey::freeze(self.asset, subject.order));
            }
            Step::Commit { earned } => {
                keys.push(OperationKey::commit(self.asset, subject.order));
                if points {
                    keys.push(OperationKey::earn(subject.order));
                }
                let earns = points && earned > Points::ZERO;
                if !is_named && !earns {
                    return;
                }
            }
            Step::Release if !is_named => return,
            Step::Release => keys.push(OperationKey::release(self.asset, subject.order)),
            Step::GiveBack { refund } => {
                keys.push(OperationKey::revert(self.asset, refund));
                keys.push(OperationKey::give_back(subject.order));
                if points {
                    keys.push(OperationKey::earn(subject.order));
                    keys.push(OperationKey::unearn(refund));
                }
                if !is_named && !points {
                    return;
                }
            }
        }
        wanted.keys.extend(keys.into_iter().map(|key| (subject.tenant, key)));
        wanted.orders.insert((subject.tenant, subject.order));
        wanted.users.insert((subject.tenant, subject.user));
    }

    async fn apply_one(
        &self,
        unit: &mut Work,
        books: &mut Books,
        asked: &Asked<'_>,
    ) -> Result<Applied, HandlerError> {
        let order = asked.order;
        let subject = self.subject(order);
        let cause = Cause {
            event_id: Some(asked.event.row.event_id.clone()),
            trace_id: Some(asked.event.row.trace_id().to_owned()),
        };
        let is_named = order.assets.names(self.asset);
        let mut outcome = Outcome::new(asked.event);
        match asked.step {
            Step::Lock if !is_named => {}
            Step::Lock => {
                let coupon = order.assets.coupon.filter(|_| self.asset == Asset::Coupon);
                let asked_for = (order.assets.amount(self.asset), coupon.map(|coupon| coupon.id));
                match books.freeze(subject, asked_for, &cause) {
                    Ok(done) => outcome.add("locked", &done),
                    Err(refusal) => {
                        books.bury(subject);
                        let cancelled = self.cancel(unit, asked, order).await?;
                        outcome.applied.result = Some(format!("lock refused: {refusal}; {cancelled}"));
                    }
                }
            }
            Step::Commit { earned } => {
                if is_named {
                    outcome.add("committed", &books.commit(subject, &cause).map_err(refused)?);
                }
                if self.asset == Asset::Points && earned > Points::ZERO {
                    if self.was_unearned(unit, order).await? {
                        outcome.add("earned", &Done::Nothing("nothing is earned: the order was paid back"));
                    } else {
                        outcome.add("earned", &books.earn(subject, earned, &cause).map_err(refused)?);
                    }
                }
            }
            Step::Release => {
                if is_named {
                    outcome.add("released", &books.release(subject, &cause).map_err(refused)?);
                }
            }
            Step::GiveBack { refund } => {
                if is_named {
                    outcome.add("given back", &books.revert(subject, refund, &cause).map_err(refused)?);
                }
                if self.asset == Asset::Points && !planted(Mutant::RefundLeavesEarnedPoints) {
                    outcome.add("taken back", &books.unearn(subject, refund, &cause).map_err(refused)?);
                }
            }
        }
        outcome.end(|| format!("no {} named", self.asset))
    }

    /// Whether what this order earned was taken back before it was earned.
    async fn was_unearned(&self, unit: &mut Work, order: &Order) -> Result<bool, HandlerError> {
        if order.status != OrderStatus::Refunded {
            return Ok(false);
        }
        let operations = unit.operations_of(order.tenant, order.id).await?;
        let unearned = |key: &OperationKey| key.as_str().ends_with(":unearn");
        Ok(operations.iter().any(|operation| unearned(&operation.key)))
    }

    /// The lock is refused for good: the order is closed, and its other assets are released by that event.
    async fn cancel(
        &self,
        unit: &mut Work,
        asked: &Asked<'_>,
        order: &Order,
    ) -> Result<String, HandlerError> {
        // As it stands in this unit: an earlier event of the group may have moved it.
        let Some(order) = unit.order_by_id(order.tenant, order.id).await? else {
            return Err(HandlerError::Unrecoverable("no such order".to_owned()));
        };
        if order.status != OrderStatus::Pending || planted(Mutant::RefusedLockLeavesOrder) {
            return Ok(format!("the order is {}", order.status));
        }
        let context = CommandContext {
            actor: Actor::System(self.name()),
            tenant: order.tenant,
            trace: asked.event.row.trace(),
            idempotency: None,
        };
        let announcer = self.app.announcer(&context, 1);
        let action = OrderAction::Cancel(CancelCause::AssetLockFailed);
        match transition::apply(unit, &order, &action, OrderActor::System, &announcer, 0).await {
            Ok(_) => Ok("the order is cancelled".to_owned()),
            Err(UseCaseError::Store(error)) => Err(HandlerError::Store(error)),
            Err(error) => Err(HandlerError::Recoverable(error.to_string())),
        }
    }
}

/// A step that will never be legal by itself: parked where a person sees it.
fn refused(refusal: AssetRefusal) -> HandlerError {
    HandlerError::Unrecoverable(refusal.to_string())
}

/// What is recorded of one event in the consume log, from the results of its operations.
struct Outcome<'e> {
    event: &'e Event,
    applied: Applied,
    /// Whether one of the operations was done now.
    is_new: bool,
    /// Whether one of them was done before, by this very event.
    is_own: bool,
}

impl Outcome<'_> {
    fn new(event: &Event) -> Outcome<'_> {
        Outcome { event, applied: Applied::default(), is_new: false, is_own: false }
    }

    fn add(&mut self, what: &str, done: &Done) {
        let text = match done {
            Done::Now(operation) => {
                self.is_new = true;
                format!("{what} {}", operation.asset.show(operation.amount))
            }
            Done::Before(operation) => {
                self.applied.is_repeated = true;
                self.is_own |= operation.event_id.as_ref() == Some(&self.event.row.event_id);
                format!("{what} before {}", operation.asset.show(operation.amount))
            }
            Done::Nothing(why) => (*why).to_owned(),
        };
        self.applied.result = Some(match self.applied.result.take() {
            Some(before) => format!("{before}; {text}"),
            None => text,
        });
        if self.applied.idempotency_key.is_none() {
            self.applied.idempotency_key = done.key().map(ToString::to_string);
        }
    }

    fn end(mut self, nothing: impl FnOnce() -> String) -> Result<Applied, HandlerError> {
        if self.is_new {
            self.applied.is_repeated = false;
        } else if self.is_own {
            return Err(applied_twice(self.event));
        } else if self.applied.is_repeated {
            self.applied.result = Some(ALREADY_APPLIED.to_owned());
        }
        self.applied.result.get_or_insert_with(nothing);
        Ok(self.applied)
    }
}

#[async_trait]
impl Handler<Work> for AssetKeeper {
    fn name(&self) -> &'static str {
        self.asset.as_str()
    }

    fn takes(&self) -> &'static [&'static str] {
        const {
            &[
                EventType::OrderCreated.as_str(),
                EventType::OrderPaid.as_str(),
                EventType::OrderCancelled.as_str(),
                EventType::OrderRefunded.as_str(),
            ]
        }
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let orders = Orders::read(unit, events).await?;
        let asked = events.iter().map(|event| self.asked(event, &orders)).collect::<Result<Vec<_>, _>>()?;
        let mut wanted = Wanted::default();
        for asked in &asked {
            self.want(&mut wanted, asked);
        }
        let mut books = Books::open(unit, self.asset, wanted, self.app.now()).await?;
        let mut applied = Vec::with_capacity(asked.len());
        for asked in &asked {
            applied.push(self.apply_one(unit, &mut books, asked).await?);
        }
        books.write(unit).await?;
        Ok(applied)
    }
}
