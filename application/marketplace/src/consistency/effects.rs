//! The stored effects of orders: those of each consumer, and the operations of the cash ledger.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use marketplace_domain::{
    Asset, AssetOperation, EventBody, Hold, OperationKey, OperationKind, Order, OrderStatus, PointsRules,
    RefundId,
};

use super::holds::reconstructed_hold;
use super::rows_by_order::{RowsByOrder, ids_by_tenant};
use crate::consumer::{
    Consumer, Consumers, Effect, EffectRow, OrderCondition, RowDescription, StoredEffects,
};
use crate::ports::MarketView;
use handover_outbox::ports::{Consumed, StoreError};

/// All stored effects of one order.
pub(crate) struct OrderEffects {
    of_consumers: Vec<(Arc<dyn Consumer>, Box<dyn StoredEffects>)>,
    /// Operations of all assets, including cash.
    operations: Vec<AssetOperation>,
    holds: Vec<Hold>,
}

/// Reads the effects of these orders, in their sequence.
pub(crate) async fn effects_of_orders(
    view: &mut dyn MarketView,
    consumers: &Consumers,
    orders: &[Order],
) -> Result<Vec<OrderEffects>, StoreError> {
    let mut operations = RowsByOrder::default();
    let mut holds = RowsByOrder::default();
    for (tenant, ids) in ids_by_tenant(orders) {
        operations.extend(tenant, view.operations_of(tenant, &ids).await?, |it| it.order);
        holds.extend(tenant, view.holds_of(tenant, &ids).await?, |it| it.order);
    }
    let of_order = |order| OrderEffects {
        of_consumers: Vec::new(),
        operations: operations.take(order),
        holds: holds.take(order),
    };
    let mut effects: Vec<OrderEffects> = orders.iter().map(of_order).collect();
    for consumer in consumers.iter() {
        let of_consumer = consumer.read_effects(view, orders).await?;
        for (of_order, stored) in effects.iter_mut().zip(of_consumer) {
            of_order.of_consumers.push((Arc::clone(consumer), stored));
        }
    }
    Ok(effects)
}

impl OrderEffects {
    /// Compares the effect that a consumer has written for the business fact of an event with the expected effect.
    pub(crate) fn of(
        &self,
        consumer: &str,
        event: &EventBody,
        order: &Order,
        record: Option<&Consumed>,
        points: PointsRules,
    ) -> Effect {
        let stored = self.of_consumers.iter().find(|(of, _)| of.name() == consumer);
        stored.map_or(Effect::Invisible, |(_, stored)| stored.compare(event, order, record, points))
    }

    /// Whether this amount was posted to the cash accounts.
    pub(crate) fn has_cash_operation(&self, kind: OperationKind, key: &OperationKey) -> bool {
        self.cash().any(|it| it.kind == kind && it.key == *key)
    }

    fn cash(&self) -> impl Iterator<Item = &AssetOperation> {
        self.operations.iter().filter(|it| it.asset == Asset::Cash)
    }

    /// Surplus rows: every row of a fact after its first.
    pub(crate) fn duplicates(&self) -> Vec<EffectRow> {
        let mut rows = self.rows();
        rows.sort_by(|a, b| (a.table, &a.fact).cmp(&(b.table, &b.fact)));
        let same = |a: &EffectRow, b: &EffectRow| (a.table, &a.fact) == (b.table, &b.fact);
        rows.chunk_by(same).flat_map(|of_fact| of_fact.iter().skip(1).cloned()).collect()
    }

    /// Effects that the order row contradicts.
    pub(crate) fn contradicted(&self, order: &Order) -> Vec<EffectRow> {
        self.rows().into_iter().filter(|row| !row.condition.is_met_by(order)).collect()
    }

    /// Every effect with its fact and the condition that the order must meet.
    fn rows(&self) -> Vec<EffectRow> {
        let of_consumers = self.of_consumers.iter().flat_map(|(_, stored)| stored.rows());
        of_consumers.chain(self.cash().map(row_of_operation)).collect()
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
}

/// The refunds of an order whose amount was posted to the cash accounts.
pub(crate) async fn refunds_in_ledger(
    view: &mut dyn MarketView,
    order: &Order,
) -> Result<Vec<RefundId>, StoreError> {
    let operations = view.operations_of(order.tenant, &[order.id]).await?;
    let payouts = operations.iter().filter(|it| it.kind == OperationKind::Payout);
    Ok(payouts.filter_map(|it| it.refund).collect())
}

/// The effect row of an asset operation.
pub(crate) fn row_of_operation(operation: &AssetOperation) -> EffectRow {
    let condition = match operation.kind {
        OperationKind::Commit | OperationKind::Earn => OrderCondition::Paid,
        OperationKind::Release => OrderCondition::Is(OrderStatus::Cancelled),
        OperationKind::Revert | OperationKind::Unearn => OrderCondition::Is(OrderStatus::Refunded),
        // Only the order must exist. Captures and payouts are compared with payments and refunds; deposits, grants and
        // issued coupons belong to no order.
        OperationKind::Freeze
        | OperationKind::Deposit
        | OperationKind::Grant
        | OperationKind::Issue
        | OperationKind::Capture
        | OperationKind::Payout => OrderCondition::Exists,
    };
    EffectRow {
        table: "asset_operations",
        fact: operation.key.to_string(),
        event_id: operation.event_id.clone(),
        at: operation.at,
        condition,
        description: RowDescription::Operation(operation.clone()),
    }
}
