//! Consumers `coupon`, `wallet` and `points`: the assets of an order.

mod effects;

use std::time::Duration;

use async_trait::async_trait;
use marketplace_domain::{
    Asset, AssetRefusal, CancelCause, EventBody, EventKind, OperationKey, Order, OrderAction, OrderActor,
    OrderRefusal, OrderStatus, Points, PointsRules, RefundId,
};

use self::effects::EARNED;
use super::facts::{Orders, applied_twice, body_of, unsupported};
use crate::assets::{AssetAccounts, AssetOutcome, Cause, RowSelection, Subject};
use crate::consumer::{Audience, Consumer, HandlerContext, LostEffect, Queue, StoredEffects, names_of};
use crate::context::{Actor, CommandContext};
use crate::error::UseCaseError;
use crate::ports::{MarketView, Work};
use crate::use_cases::transition;
use handover_outbox::consumers::{ALREADY_APPLIED, Applied, Event, HandlerError};
use handover_outbox::ports::StoreError;

/// Locks, commits, releases and reverts one kind of asset, and credits earned points. The natural key of an effect is the
/// key of its operation, so a second event of the same fact has no effect.
///
/// Late events: a release before its lock leaves a tombstone, and the lock is then skipped. An event that is applied before
/// the step that it requires (a commit before its lock, a revert before its commit) is rejected and becomes a dead letter.
/// It can be replayed after that step. Every delivery sequence therefore ends with the same balances or with dead letters.
pub struct AssetConsumer {
    asset: Asset,
    queue: &'static str,
    effect: &'static str,
}

/// Queue of the coupon consumer.
pub const COUPON_QUEUE: &str = "asset.coupon.queue";
/// Queue of the wallet consumer.
pub const WALLET_QUEUE: &str = "asset.wallet.queue";
/// Queue of the points consumer.
pub const POINTS_QUEUE: &str = "asset.points.queue";

const EVENTS: &[EventKind] =
    &[EventKind::OrderCreated, EventKind::OrderPaid, EventKind::OrderCancelled, EventKind::OrderRefunded];

/// Change of the order's assets that an event causes.
#[derive(Debug, Clone, Copy)]
enum AssetStep {
    Lock,
    /// Commits the hold; the consumer `points` also credits the earned points.
    Commit {
        earned: Points,
    },
    Release,
    Revert {
        refund: RefundId,
    },
}

/// An event, the change of assets that it causes, and the order whose row confirms the event.
struct PlannedStep<'e> {
    event: &'e Event,
    order: &'e Order,
    step: AssetStep,
}

/// Description of the effects on wallet and points.
const POSTINGS: &str = "`asset_holds`, `asset_operations`, `ledger_entries`, `asset_balances`: see [below](#coupons-wallet-points)";

impl AssetConsumer {
    /// The consumer `coupon`.
    pub const fn of_coupons() -> AssetConsumer {
        let effect = "`coupons`, `asset_holds`, `asset_operations`: see [below](#coupons-wallet-points)";
        AssetConsumer { asset: Asset::Coupon, queue: COUPON_QUEUE, effect }
    }

    /// The consumer `wallet`.
    pub const fn of_wallets() -> AssetConsumer {
        AssetConsumer { asset: Asset::Wallet, queue: WALLET_QUEUE, effect: POSTINGS }
    }

    /// The consumer `points`.
    pub const fn of_points() -> AssetConsumer {
        AssetConsumer { asset: Asset::Points, queue: POINTS_QUEUE, effect: POSTINGS }
    }

    fn plan<'e>(
        event: &'e Event,
        orders: &'e Orders,
        points: PointsRules,
    ) -> Result<PlannedStep<'e>, HandlerError> {
        let body = body_of(event)?;
        let step = if let EventBody::OrderCreated(_) = &body {
            AssetStep::Lock
        } else if let EventBody::OrderPaid(body) = &body {
            AssetStep::Commit { earned: points.earned(body.amount) }
        } else if let EventBody::OrderCancelled(_) = &body {
            AssetStep::Release
        } else if let EventBody::OrderRefunded(body) = &body {
            AssetStep::Revert { refund: body.refund }
        } else {
            return Err(unsupported(event));
        };
        Ok(PlannedStep { event, order: orders.confirming(event, &body)?, step })
    }

    fn subject(&self, order: &Order) -> Subject {
        Subject { tenant: order.tenant, order: order.id, user: order.buyer, asset: self.asset }
    }

    /// Selects the rows that the change of assets caused by an event reads or writes.
    fn select_rows(&self, selection: &mut RowSelection, planned: &PlannedStep<'_>) {
        let subject = self.subject(planned.order);
        let is_named = planned.order.assets.names(self.asset);
        let points = self.asset == Asset::Points;
        let mut keys = Vec::new();
        match planned.step {
            AssetStep::Lock if !is_named => return,
            AssetStep::Lock => {
                let coupon = planned.order.assets.coupon.filter(|_| self.asset == Asset::Coupon);
                selection.coupons.extend(coupon.map(|coupon| (subject.tenant, coupon.id)));
                keys.push(OperationKey::freeze(self.asset, subject.order));
            }
            AssetStep::Commit { earned } => {
                keys.push(OperationKey::commit(self.asset, subject.order));
                if points {
                    keys.push(OperationKey::earn(subject.order));
                }
                let earns = points && earned > Points::ZERO;
                if !is_named && !earns {
                    return;
                }
            }
            AssetStep::Release if !is_named => return,
            AssetStep::Release => keys.push(OperationKey::release(self.asset, subject.order)),
            AssetStep::Revert { refund } => {
                keys.push(OperationKey::revert(self.asset, refund));
                keys.push(OperationKey::return_used(subject.order));
                if points {
                    keys.push(OperationKey::earn(subject.order));
                    keys.push(OperationKey::unearn(refund));
                }
                if !is_named && !points {
                    return;
                }
            }
        }
        selection.keys.extend(keys.into_iter().map(|key| (subject.tenant, key)));
        selection.orders.insert((subject.tenant, subject.order));
        selection.users.insert((subject.tenant, subject.user));
    }

    async fn apply_one(
        &self,
        context: &HandlerContext,
        unit: &mut Work,
        accounts: &mut AssetAccounts,
        planned: &PlannedStep<'_>,
    ) -> Result<Applied, HandlerError> {
        let order = planned.order;
        let subject = self.subject(order);
        let cause = Cause {
            event_id: Some(planned.event.row.event_id.clone()),
            trace_id: Some(planned.event.row.trace_id().to_owned()),
        };
        let is_named = order.assets.names(self.asset);
        let mut outcome = EventOutcome::new(planned.event);
        match planned.step {
            AssetStep::Lock if !is_named => {}
            AssetStep::Lock => {
                let coupon = order.assets.coupon.filter(|_| self.asset == Asset::Coupon);
                let amount_and_coupon = (order.assets.amount(self.asset), coupon.map(|coupon| coupon.id));
                match accounts.freeze(subject, amount_and_coupon, &cause) {
                    Ok(operation_outcome) => outcome.add("locked", &operation_outcome),
                    Err(refusal) => {
                        accounts.insert_tombstone(subject);
                        let cancelled = self.cancel(context, unit, planned, order).await?;
                        outcome.applied.result = Some(format!("lock refused: {refusal}; {cancelled}"));
                    }
                }
            }
            AssetStep::Commit { earned } => {
                if is_named {
                    outcome.add("committed", &accounts.commit(subject, &cause).map_err(unrecoverable)?);
                }
                if self.asset == Asset::Points && earned > Points::ZERO {
                    if self.was_unearned(unit, order).await? {
                        outcome
                            .add(EARNED, &AssetOutcome::Skipped("an order earns no points after its refund"));
                    } else {
                        outcome.add(EARNED, &accounts.earn(subject, earned, &cause).map_err(unrecoverable)?);
                    }
                }
            }
            AssetStep::Release => {
                if is_named {
                    outcome.add("released", &accounts.release(subject, &cause).map_err(unrecoverable)?);
                }
            }
            AssetStep::Revert { refund } => {
                if is_named {
                    outcome
                        .add("reverted", &accounts.revert(subject, refund, &cause).map_err(unrecoverable)?);
                }
                if self.asset == Asset::Points {
                    outcome
                        .add("deducted", &accounts.unearn(subject, refund, &cause).map_err(unrecoverable)?);
                }
            }
        }
        outcome.end(|| format!("the order uses no {}", self.asset))
    }

    /// Whether the refund of this order has been applied to the points. If so, the order earns no points.
    async fn was_unearned(&self, unit: &mut Work, order: &Order) -> Result<bool, HandlerError> {
        if order.status != OrderStatus::Refunded {
            return Ok(false);
        }
        let operations = unit.operations_of(order.tenant, &[order.id]).await?;
        let unearned = |key: &OperationKey| key.as_str().ends_with(":unearn");
        Ok(operations.iter().any(|operation| unearned(&operation.key)))
    }

    /// Cancels the order after a refused lock, if it is still pending. The cancellation event releases the other assets
    /// of the order.
    async fn cancel(
        &self,
        handler: &HandlerContext,
        unit: &mut Work,
        planned: &PlannedStep<'_>,
        order: &Order,
    ) -> Result<String, HandlerError> {
        // The order is read again: an earlier event that is applied in this unit of work may have changed it.
        let Some(order) = unit.order_by_id(order.tenant, order.id).await? else {
            return Err(HandlerError::Unrecoverable("the order does not exist".to_owned()));
        };
        if order.status != OrderStatus::Pending {
            return Ok(format!("the order is {}", order.status));
        }
        let context = CommandContext {
            actor: Actor::System(self.asset.as_str()),
            tenant: order.tenant,
            trace: planned.event.row.trace(),
            request_id: planned.event.row.metadata.request_id.clone(),
        };
        let event_factory = handler.events.factory(&context, 1);
        let action = OrderAction::Cancel(CancelCause::AssetLockFailed);
        match transition::apply::<OrderRefusal>(unit, &order, &action, OrderActor::System, &event_factory, 0)
            .await
        {
            Ok(_) => Ok("the order is cancelled".to_owned()),
            Err(UseCaseError::Store(error)) => Err(HandlerError::Store(error)),
            Err(error) => Err(HandlerError::Recoverable(error.to_string())),
        }
    }
}

/// Returns the error for a refused operation. The event becomes a dead letter, because a retry would be refused again.
/// If the operation was refused because an earlier event is still missing, an operator can replay the dead letter after
/// that event was applied.
fn unrecoverable(refusal: AssetRefusal) -> HandlerError {
    HandlerError::Unrecoverable(refusal.to_string())
}

/// Consume-log result of one event, built from the outcomes of its operations.
struct EventOutcome<'e> {
    event: &'e Event,
    applied: Applied,
    /// Whether this attempt applied at least one operation.
    is_new: bool,
    /// Whether an earlier attempt at the same event applied at least one of its operations.
    is_own: bool,
}

impl EventOutcome<'_> {
    fn new(event: &Event) -> EventOutcome<'_> {
        EventOutcome { event, applied: Applied::default(), is_new: false, is_own: false }
    }

    fn add(&mut self, what: &str, operation_outcome: &AssetOutcome) {
        let text = match operation_outcome {
            AssetOutcome::Applied(operation) => {
                self.is_new = true;
                format!("{what} {}", operation.asset.show(operation.amount))
            }
            AssetOutcome::AlreadyApplied(operation) => {
                self.applied.is_repeated = true;
                self.is_own |= operation.event_id.as_ref() == Some(&self.event.row.event_id);
                format!("already {what} {}", operation.asset.show(operation.amount))
            }
            AssetOutcome::Skipped(why) => (*why).to_owned(),
        };
        self.applied.result = Some(match self.applied.result.take() {
            Some(before) => format!("{before}; {text}"),
            None => text,
        });
        if self.applied.idempotency_key.is_none() {
            self.applied.idempotency_key = operation_outcome.key().map(ToString::to_string);
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
impl Consumer for AssetConsumer {
    fn name(&self) -> &str {
        self.asset.as_str()
    }

    fn event_types(&self) -> Vec<&str> {
        names_of(EVENTS)
    }

    fn queue(&self, _: Duration) -> Queue {
        Queue::of_events(self.queue, EVENTS).selective()
    }

    fn effect(&self) -> &'static str {
        self.effect
    }

    fn audience(&self) -> Audience {
        Audience::Buyer
    }

    async fn apply(
        &self,
        context: &HandlerContext,
        unit: &mut Work,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let orders = Orders::read(unit, events).await?;
        let planned = events
            .iter()
            .map(|event| AssetConsumer::plan(event, &orders, context.points))
            .collect::<Result<Vec<_>, _>>()?;
        let mut selection = RowSelection::default();
        for planned in &planned {
            self.select_rows(&mut selection, planned);
        }
        let mut accounts = AssetAccounts::open(unit, self.asset, selection, context.now()).await?;
        let mut applied = Vec::with_capacity(planned.len());
        for planned in &planned {
            applied.push(self.apply_one(context, unit, &mut accounts, planned).await?);
        }
        accounts.write(unit).await?;
        Ok(applied)
    }
    async fn read_effects(
        &self,
        view: &mut dyn MarketView,
        orders: &[Order],
    ) -> Result<Vec<Box<dyn StoredEffects>>, StoreError> {
        effects::read(self.asset, view, orders).await
    }

    async fn restore(&self, unit: &mut Work, lost: &LostEffect<'_>) -> Result<bool, StoreError> {
        effects::restore_operations(self.asset, unit, lost).await
    }
}
