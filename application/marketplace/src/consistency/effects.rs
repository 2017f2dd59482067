//! The effects of each consumer: which of them an event requires, and which exist.

use std::fmt;

use chrono::{DateTime, Utc};
use handover_events::EventId;
use marketplace_domain::{
    Asset, AssetOperation, CancelReason, CreditOutcome, EventBody, Hold, HoldStatus, OperationKey,
    OperationKind, Order, OrderStatus, Points, PointsRules, RefundId,
};

use super::holds::{is_cancelled_without_hold, reconstructed_hold};
use super::rows_by_order::{RowsByOrder, ids_by_tenant};
use crate::ports::{
    CreditChange, EffectKind, ListingChange, ListingChangeKind, MarketView, Notification, SHIPMENT,
    ShipmentTask, notification_fact,
};
use handover_outbox::ports::StoreError;

/// All stored effects of one order.
#[derive(Default)]
pub(crate) struct OrderEffects {
    listings: Vec<ListingChange>,
    shipments: Vec<ShipmentTask>,
    notifications: Vec<Notification>,
    credit: Vec<CreditChange>,
    operations: Vec<AssetOperation>,
    holds: Vec<Hold>,
}

/// Effect of an event at one consumer, compared with the expected effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The consumer writes no rows for the event.
    Invisible,
    /// Number of effect rows that were found in `table`, and the expected number.
    Rows { table: &'static str, found: usize, expected: usize },
    /// The required asset operations that are missing.
    Operations { missing: Vec<OperationKey> },
}

impl Effect {
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Effect::Invisible => false,
            Effect::Rows { found, expected, .. } => found < expected,
            Effect::Operations { missing } => !missing.is_empty(),
        }
    }

    /// Whether rows prove that the event took effect.
    pub(crate) fn is_present(&self) -> bool {
        match self {
            Effect::Invisible => false,
            Effect::Rows { found, expected, .. } => *expected > 0 && found >= expected,
            Effect::Operations { missing } => missing.is_empty(),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Invisible => f.write_str("no rows to compare"),
            Effect::Rows { table, found, expected } => {
                write!(f, "{table} has {found} rows, expected {expected}")
            }
            Effect::Operations { missing } => {
                f.write_str("asset operations are missing:")?;
                missing.iter().try_for_each(|key| write!(f, " {key}"))
            }
        }
    }
}

/// Reads the effects of these orders, in their sequence.
pub(crate) async fn effects_of_orders<V: MarketView + ?Sized>(
    view: &mut V,
    orders: &[Order],
) -> Result<Vec<OrderEffects>, StoreError> {
    let mut listings = RowsByOrder::default();
    let mut shipments = RowsByOrder::default();
    let mut notifications = RowsByOrder::default();
    let mut credit = RowsByOrder::default();
    let mut operations = RowsByOrder::default();
    let mut holds = RowsByOrder::default();
    for (tenant, ids) in ids_by_tenant(orders) {
        listings.extend(tenant, view.listing_changes(tenant, &ids).await?, |it| it.order);
        shipments.extend(tenant, view.shipment_tasks(tenant, &ids).await?, |it| it.order);
        notifications.extend(tenant, view.notifications_about(tenant, &ids).await?, |it| it.order);
        credit.extend(tenant, view.credit_changes(tenant, &ids).await?, |it| it.order);
        operations.extend(tenant, view.operations_of(tenant, &ids).await?, |it| it.order);
        holds.extend(tenant, view.holds_of(tenant, &ids).await?, |it| it.order);
    }
    let of_order = |order| OrderEffects {
        listings: listings.take(order),
        shipments: shipments.take(order),
        notifications: notifications.take(order),
        credit: credit.take(order),
        operations: operations.take(order),
        holds: holds.take(order),
    };
    Ok(orders.iter().map(of_order).collect())
}

/// Reads the effects of one order.
pub(crate) async fn read_effects<V: MarketView + ?Sized>(
    view: &mut V,
    order: &Order,
) -> Result<OrderEffects, StoreError> {
    Ok(effects_of_orders(view, std::slice::from_ref(order)).await?.pop().unwrap_or_default())
}

impl OrderEffects {
    /// Compares the effect that a consumer has written for the business fact of an event with the expected effect. The
    /// consumer may have written the effect for another event of the same fact.
    pub(crate) fn of(
        &self,
        consumer: &str,
        body: &EventBody,
        (order, rules): (&Order, PointsRules),
    ) -> Effect {
        let rows =
            |kind: EffectKind, found: usize, expected| Effect::Rows { table: kind.table(), found, expected };
        match (consumer, body) {
            ("inventory", EventBody::OrderCreated(_)) => {
                let found = self.listings.iter().filter(|it| it.kind == ListingChangeKind::Occupied).count();
                // If the order was cancelled or refunded before the event was applied, the consumer skipped the event
                // as stale.
                rows(
                    EffectKind::ListingChange,
                    found,
                    if order.is_cancelled_or_refunded() { found.min(1) } else { 1 },
                )
            }
            ("inventory", _) => {
                let found = self.listings.iter().filter(|it| it.kind == ListingChangeKind::Released).count();
                rows(EffectKind::ListingChange, found, 1)
            }
            ("fulfillment", _) => {
                let found = self.shipments.len();
                let is_stale = order.status == OrderStatus::Refunded;
                rows(EffectKind::Shipment, found, if is_stale { found.min(1) } else { 1 })
            }
            ("status-sync", EventBody::OrderStatusChanged(body)) => {
                let found = self.notifications.iter().filter(|it| it.new_status == body.new_status).count();
                rows(EffectKind::Notification, found, 2)
            }
            ("buyer-credit", _) => {
                let step = credit_step_of(body);
                let found = self.credit.iter().filter(|it| Some(it.step) == step).count();
                rows(EffectKind::CreditChange, found, usize::from(step.is_some()))
            }
            ("coupon", _) => self.operations(Asset::Coupon, body, order, rules),
            ("wallet", _) => self.operations(Asset::Wallet, body, order, rules),
            ("points", _) => self.operations(Asset::Points, body, order, rules),
            _ => Effect::Invisible,
        }
    }

    /// Whether this amount was posted to the cash accounts.
    pub(crate) fn has_cash_operation(&self, kind: OperationKind, key: &OperationKey) -> bool {
        self.operations.iter().any(|it| it.asset == Asset::Cash && it.kind == kind && it.key == *key)
    }

    /// The refunds whose amount was posted to the cash accounts.
    pub(crate) fn refunds_in_ledger(&self) -> impl Iterator<Item = RefundId> {
        let payouts = self.operations.iter().filter(|it| it.kind == OperationKind::Payout);
        payouts.filter_map(|it| it.refund)
    }

    /// Surplus rows: every row of a fact after its first.
    pub(crate) fn duplicates(&self) -> Vec<FactRow> {
        let mut rows = self.fact_rows();
        rows.sort_by(|a, b| (a.table, &a.fact).cmp(&(b.table, &b.fact)));
        let same = |a: &FactRow, b: &FactRow| (a.table, &a.fact) == (b.table, &b.fact);
        rows.chunk_by(same).flat_map(|of_fact| of_fact.iter().skip(1).cloned()).collect()
    }

    /// Effects that the order row contradicts.
    pub(crate) fn contradicted(&self, order: &Order) -> Vec<FactRow> {
        self.fact_rows().into_iter().filter(|row| !row.condition.is_met_by(order)).collect()
    }

    /// Every effect with its fact and the condition that the order must meet.
    fn fact_rows(&self) -> Vec<FactRow> {
        let row = |table, fact: String, event_id: Option<&EventId>, condition| FactRow {
            table,
            fact,
            event_id: event_id.cloned(),
            condition,
        };
        let listings = self.listings.iter().map(|it| {
            let condition = match it.kind {
                ListingChangeKind::Occupied => OrderCondition::Exists,
                ListingChangeKind::Released => OrderCondition::Undone,
            };
            row(EffectKind::ListingChange.table(), it.kind.as_str().to_owned(), Some(&it.event_id), condition)
        });
        let shipments = self.shipments.iter().map(|it| {
            row(EffectKind::Shipment.table(), SHIPMENT.to_owned(), Some(&it.event_id), OrderCondition::Paid)
        });
        let notifications = self.notifications.iter().map(|it| {
            let condition = match it.new_status {
                OrderStatus::Shipped => OrderCondition::Shipped,
                OrderStatus::Completed => OrderCondition::Is(OrderStatus::Completed),
                OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Cancelled | OrderStatus::Refunded => {
                    OrderCondition::Never
                }
            };
            let fact = notification_fact(it.new_status, it.side);
            row(EffectKind::Notification.table(), fact, Some(&it.event_id), condition)
        });
        let credit = self.credit.iter().map(|it| {
            let condition = match it.step {
                CreditOutcome::Completed => OrderCondition::Is(OrderStatus::Completed),
                CreditOutcome::CancelledByBuyer => OrderCondition::CancelledFor(CancelReason::Buyer),
                CreditOutcome::CancelledByTimeout => OrderCondition::CancelledFor(CancelReason::Timeout),
            };
            row(EffectKind::CreditChange.table(), it.step.as_str().to_owned(), Some(&it.event_id), condition)
        });
        let operations = self.operations.iter().map(|it| {
            let condition = match it.kind {
                OperationKind::Commit | OperationKind::Earn => OrderCondition::Paid,
                OperationKind::Release => OrderCondition::Is(OrderStatus::Cancelled),
                OperationKind::Revert | OperationKind::Unearn => OrderCondition::Is(OrderStatus::Refunded),
                // Only the order must exist. Captures and payouts are compared with payments and refunds; deposits,
                // grants and issued coupons belong to no order.
                OperationKind::Freeze
                | OperationKind::Deposit
                | OperationKind::Grant
                | OperationKind::Issue
                | OperationKind::Capture
                | OperationKind::Payout => OrderCondition::Exists,
            };
            row("asset_operations", it.key.to_string(), it.event_id.as_ref(), condition)
        });
        listings.chain(shipments).chain(notifications).chain(credit).chain(operations).collect()
    }

    fn operations(&self, asset: Asset, body: &EventBody, order: &Order, rules: PointsRules) -> Effect {
        let hold = self.holds.iter().find(|hold| hold.asset == asset);
        // The lock was refused, or the release was applied before the lock: no amount was moved.
        let has_tombstone = match hold {
            Some(hold) => hold.status == HoldStatus::Released && hold.amount == 0,
            None => is_cancelled_without_hold(order, asset, &self.operations),
        };
        let is_held = order.assets.names(asset) && !has_tombstone;
        let mut required = Vec::new();
        match body {
            EventBody::OrderCreated(_) if is_held => required.push(OperationKey::freeze(asset, order.id)),
            EventBody::OrderPaid(_) if is_held => required.push(OperationKey::commit(asset, order.id)),
            EventBody::OrderCancelled(_) if is_held => required.push(OperationKey::release(asset, order.id)),
            EventBody::OrderRefunded(body) if is_held => required.push(match asset {
                Asset::Coupon => OperationKey::return_used(order.id),
                Asset::Wallet | Asset::Points | Asset::Cash => OperationKey::revert(asset, body.refund),
            }),
            EventBody::OrderCreated(_)
            | EventBody::OrderPaid(_)
            | EventBody::OrderCancelled(_)
            | EventBody::OrderRefunded(_)
            | EventBody::OrderStatusChanged(_)
            | EventBody::OrderTimeout(_)
            | EventBody::PaymentSucceeded(_)
            | EventBody::PaymentFailed(_)
            | EventBody::RefundSucceeded(_)
            | EventBody::RefundFailed(_)
            | EventBody::InvoiceGenerated(_) => {}
        }
        if asset == Asset::Points {
            match body {
                EventBody::OrderRefunded(body) => required.push(OperationKey::unearn(body.refund)),
                EventBody::OrderPaid(body)
                    if rules.earned(body.amount) > Points::ZERO && !self.earns_nothing() =>
                {
                    required.push(OperationKey::earn(order.id));
                }
                EventBody::OrderCreated(_)
                | EventBody::OrderPaid(_)
                | EventBody::OrderCancelled(_)
                | EventBody::OrderStatusChanged(_)
                | EventBody::OrderTimeout(_)
                | EventBody::PaymentSucceeded(_)
                | EventBody::PaymentFailed(_)
                | EventBody::RefundSucceeded(_)
                | EventBody::RefundFailed(_)
                | EventBody::InvoiceGenerated(_) => {}
            }
        }
        if required.is_empty() {
            return Effect::Invisible;
        }
        required.retain(|key| !self.operations.iter().any(|operation| operation.key == *key));
        Effect::Operations { missing: required }
    }

    /// Holds whose row is missing although an operation or an applied release proves that the row existed.
    pub(crate) fn lost_holds(
        &self,
        order: &Order,
        is_released: impl Fn(Asset) -> bool,
        now: DateTime<Utc>,
    ) -> Vec<Hold> {
        let is_lost = |asset: &Asset| !self.holds.iter().any(|hold| hold.asset == *asset);
        let reconstructed = |asset| reconstructed_hold(order, asset, &self.operations, now);
        let is_due = |hold: &Hold| hold.amount > 0 || is_released(hold.asset);
        Asset::HELD.into_iter().filter(is_lost).filter_map(reconstructed).filter(is_due).collect()
    }

    /// Whether the order was refunded before it earned points: it will not earn any.
    fn earns_nothing(&self) -> bool {
        self.operations.iter().any(|it| it.kind == OperationKind::Unearn && it.amount == 0)
    }
}

/// An effect row and the business fact that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct FactRow {
    pub(crate) table: &'static str,
    /// Natural key of the effect within the order.
    pub(crate) fact: String,
    pub(crate) event_id: Option<EventId>,
    condition: OrderCondition,
}

/// Condition that the order row must meet for an effect to be valid.
#[derive(Debug, Clone, Copy)]
enum OrderCondition {
    Exists,
    Paid,
    Shipped,
    /// The order was cancelled or refunded.
    Undone,
    Is(OrderStatus),
    CancelledFor(CancelReason),
    /// No order meets this condition. Used for a notification about a status for which consumers send none.
    Never,
}

impl OrderCondition {
    fn is_met_by(self, order: &Order) -> bool {
        match self {
            OrderCondition::Exists => true,
            OrderCondition::Paid => order.was_paid(),
            OrderCondition::Shipped => order.was_shipped(),
            OrderCondition::Undone => order.is_cancelled_or_refunded(),
            OrderCondition::Is(status) => order.status == status,
            OrderCondition::CancelledFor(reason) => {
                order.status == OrderStatus::Cancelled && order.cancel_reason == Some(reason)
            }
            OrderCondition::Never => false,
        }
    }
}

/// The order outcome that an event adds to the buyer's credit; `None` if it adds none.
fn credit_step_of(body: &EventBody) -> Option<CreditOutcome> {
    match body {
        EventBody::OrderCancelled(body) => CreditOutcome::of_cancellation(body.reason),
        EventBody::OrderStatusChanged(body) => {
            (body.new_status == OrderStatus::Completed).then_some(CreditOutcome::Completed)
        }
        EventBody::OrderCreated(_)
        | EventBody::OrderPaid(_)
        | EventBody::OrderTimeout(_)
        | EventBody::OrderRefunded(_)
        | EventBody::PaymentSucceeded(_)
        | EventBody::PaymentFailed(_)
        | EventBody::RefundSucceeded(_)
        | EventBody::RefundFailed(_)
        | EventBody::InvoiceGenerated(_) => None,
    }
}
