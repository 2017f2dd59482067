//! coupon, wallet and points: what an order is paid with beside money (spec §2 "Assets"; seed 004).

use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_domain::{
    Asset, AssetRefusal, CancelCause, CouponId, EventBody, EventType, OperationKey, Order, OrderAction,
    OrderActor, OrderFacts, OrderId, OrderStatus, Points, RefundId, TenantId,
};

use crate::assets::{Books, Cause, Done, Subject, Wanted};
use crate::consumers::{Applied, Event, Handler, HandlerError, untaken};
use crate::mutants::{Mutant, planted};
use crate::ports::UnitOfWork;
use crate::use_cases::{UseCaseError, transition};
use crate::{Actor, App, CommandContext, Trace};

/// Holds, commits, releases and gives back one kind of asset, and earns points.
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
    /// So much is to be held: nothing, if the order does not name the asset.
    Lock {
        amount: i64,
        coupon: Option<CouponId>,
    },
    /// The order was paid; in money it was so much.
    Commit {
        earned: Points,
    },
    Release,
    GiveBack {
        refund: RefundId,
    },
}

/// An event, and what it asks for.
struct Asked<'e> {
    event: &'e Event,
    facts: &'e OrderFacts,
    step: Step,
}

impl AssetKeeper {
    fn asked<'e>(&self, event: &'e Event) -> Result<Asked<'e>, HandlerError> {
        let (facts, step) = match event.body()? {
            EventBody::OrderCreated(body) => {
                let lock = match self.asset {
                    Asset::Coupon => Step::Lock { amount: 0, coupon: body.coupon_id },
                    Asset::Wallet => Step::Lock {
                        amount: body.wallet_amount.map_or(0, |amount| amount.minor()),
                        coupon: None,
                    },
                    Asset::Points => Step::Lock { amount: body.points.map_or(0, Points::get), coupon: None },
                    Asset::Cash => Step::Lock { amount: 0, coupon: None },
                };
                (&body.order, lock)
            }
            EventBody::OrderPaid(body) => {
                (&body.order, Step::Commit { earned: self.app.rules.points.earned(body.amount) })
            }
            EventBody::OrderCancelled(body) => (&body.order, Step::Release),
            EventBody::OrderRefunded(body) => (&body.order, Step::GiveBack { refund: body.refund }),
            EventBody::OrderStatusChanged(_)
            | EventBody::OrderTimeout(_)
            | EventBody::PaymentSucceeded(_)
            | EventBody::PaymentFailed(_)
            | EventBody::RefundSucceeded(_)
            | EventBody::RefundFailed(_)
            | EventBody::InvoiceGenerated(_) => return Err(untaken(event)),
        };
        Ok(Asked { event, facts, step })
    }

    fn subject(&self, asked: &Asked<'_>) -> Subject {
        Subject {
            tenant: asked.event.row.aggregate.tenant,
            order: asked.facts.order_id,
            user: asked.facts.buyer_id,
            asset: self.asset,
        }
    }

    /// The orders of these events, as they stand: what a lock asks for is in its event, the rest is in the order.
    async fn orders(
        &self,
        unit: &mut dyn UnitOfWork,
        asked: &[Asked<'_>],
    ) -> Result<BTreeMap<(TenantId, OrderId), Order>, HandlerError> {
        let mut ids: BTreeMap<TenantId, Vec<OrderId>> = BTreeMap::new();
        for asked in asked {
            if !matches!(asked.step, Step::Lock { amount: 0, coupon: None }) {
                ids.entry(asked.event.row.aggregate.tenant).or_default().push(asked.facts.order_id);
            }
        }
        let mut orders = BTreeMap::new();
        for (tenant, mut ids) in ids {
            ids.sort_unstable();
            ids.dedup();
            for order in unit.orders_by_id(tenant, &ids).await? {
                orders.insert((tenant, order.id), order);
            }
        }
        Ok(orders)
    }

    /// What the books must hold for one event.
    fn want(&self, wanted: &mut Wanted, asked: &Asked<'_>, order: Option<&Order>) {
        let subject = self.subject(asked);
        let is_named = order.is_some_and(|order| order.assets.names(self.asset));
        let points = self.asset == Asset::Points;
        let mut keys = Vec::new();
        match asked.step {
            Step::Lock { amount: 0, coupon: None } => return,
            Step::Lock { coupon, .. } => {
                wanted.coupons.extend(coupon.map(|coupon| (subject.tenant, coupon)));
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
        unit: &mut dyn UnitOfWork,
        books: &mut Books,
        asked: &Asked<'_>,
        order: Option<&Order>,
    ) -> Result<Applied, HandlerError> {
        let subject = self.subject(asked);
        if matches!(asked.step, Step::Lock { amount: 0, coupon: None }) {
            return Ok(Applied::result(format!("no {} named", self.asset)));
        }
        // 000 §9.3: an order that does not exist will not come to be.
        let order = order.ok_or_else(|| HandlerError::Unrecoverable("no such order".to_owned()))?;
        let cause = Cause {
            event_id: Some(asked.event.row.event_id.clone()),
            trace_id: Some(asked.event.row.trace_id().to_owned()),
        };
        let is_named = order.assets.names(self.asset);
        let mut told = Told::default();
        match asked.step {
            Step::Lock { amount, coupon } => {
                let amount = match coupon {
                    Some(_) => order.assets.amount(Asset::Coupon),
                    None => amount,
                };
                match books.freeze(subject, (amount, coupon), &cause) {
                    Ok(done) => told.add("locked", &done),
                    Err(refusal) => {
                        books.bury(subject);
                        let cancelled = self.cancel(unit, asked, order).await?;
                        told.0.result = Some(format!("lock refused: {refusal}; {cancelled}"));
                    }
                }
            }
            Step::Commit { earned } => {
                if is_named {
                    told.add("committed", &books.commit(subject, &cause).map_err(refused)?);
                }
                if self.asset == Asset::Points && earned > Points::ZERO {
                    if self.was_unearned(unit, order).await? {
                        told.add("earned", &Done::Nothing("nothing is earned: the order was paid back"));
                    } else {
                        told.add("earned", &books.earn(subject, earned, &cause).map_err(refused)?);
                    }
                }
            }
            Step::Release => {
                if is_named {
                    told.add("released", &books.release(subject, &cause).map_err(refused)?);
                }
            }
            Step::GiveBack { refund } => {
                if is_named {
                    told.add("given back", &books.revert(subject, refund, &cause).map_err(refused)?);
                }
                if self.asset == Asset::Points && !planted(Mutant::RefundLeavesEarnedPoints) {
                    told.add("taken back", &books.unearn(subject, refund, &cause).map_err(refused)?);
                }
            }
        }
        Ok(told.or(|| format!("no {} named", self.asset)))
    }

    /// Whether what this order earned was taken back before it was earned.
    async fn was_unearned(&self, unit: &mut dyn UnitOfWork, order: &Order) -> Result<bool, HandlerError> {
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
        unit: &mut dyn UnitOfWork,
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
            trace: Trace::of_event(&asked.event.row),
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

/// What the consume log is told.
#[derive(Default)]
struct Told(Applied);

impl Told {
    fn add(&mut self, what: &str, done: &Done) {
        let text = match done {
            Done::Now(operation) => format!("{what} {}", operation.asset.show(operation.amount)),
            Done::Before(operation) => format!("{what} before {}", operation.asset.show(operation.amount)),
            Done::Nothing(why) => (*why).to_owned(),
        };
        self.0.result = Some(match self.0.result.take() {
            Some(before) => format!("{before}; {text}"),
            None => text,
        });
        if self.0.idempotency_key.is_none() {
            self.0.idempotency_key = done.key().map(ToString::to_string);
        }
    }

    fn or(self, nothing: impl FnOnce() -> String) -> Applied {
        if self.0.result.is_some() { self.0 } else { Applied::result(nothing()) }
    }
}

#[async_trait]
impl Handler for AssetKeeper {
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

    async fn apply(&self, unit: &mut dyn UnitOfWork, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let asked = events.iter().map(|event| self.asked(event)).collect::<Result<Vec<_>, _>>()?;
        let orders = self.orders(unit, &asked).await?;
        let order_of =
            |asked: &Asked<'_>| orders.get(&(asked.event.row.aggregate.tenant, asked.facts.order_id));
        let mut wanted = Wanted::default();
        for asked in &asked {
            self.want(&mut wanted, asked, order_of(asked));
        }
        let mut books = Books::open(unit, self.asset, wanted, self.app.now()).await?;
        let mut applied = Vec::with_capacity(asked.len());
        for asked in &asked {
            applied.push(self.apply_one(unit, &mut books, asked, order_of(asked)).await?);
        }
        books.write(unit).await?;
        Ok(applied)
    }
}
