//! The asset operations that an event requires, and those that exist.

use handover_events::ConsumeStatus;
use marketplace_domain::{
    Asset, AssetOperation, Entry, EventBody, Hold, HoldStatus, Money, OperationKey, OperationKind, Order,
    Points, PointsRules, Posting,
};

use crate::consistency::holds::is_cancelled_without_hold;
use crate::consistency::row_of_operation;
use crate::consistency::rows_by_order::{RowsByOrder, ids_by_tenant};
use crate::consumer::{Effect, EffectRow, LostEffect, StoredEffects};
use crate::ports::{MarketView, Work};
use handover_outbox::ports::{Consumed, StoreError};

/// Name of the earning in the result that the consume log has of an order that earned points.
pub(super) const EARNED: &str = "earned";

/// Operations and hold of one asset of one order.
struct AssetEffects {
    asset: Asset,
    operations: Vec<AssetOperation>,
    hold: Option<Hold>,
}

pub(super) async fn read(
    asset: Asset,
    view: &mut dyn MarketView,
    orders: &[Order],
) -> Result<Vec<Box<dyn StoredEffects>>, StoreError> {
    let mut operations = RowsByOrder::default();
    let mut holds = RowsByOrder::default();
    for (tenant, ids) in ids_by_tenant(orders) {
        operations.extend(tenant, view.operations_of(tenant, &ids).await?, |it| it.order);
        holds.extend(tenant, view.holds_of(tenant, &ids).await?, |it| it.order);
    }
    let of_order = |order| -> Box<dyn StoredEffects> {
        let mut operations: Vec<AssetOperation> = operations.take(order);
        operations.retain(|operation| operation.asset == asset);
        let hold = holds.take(order).into_iter().find(|hold: &Hold| hold.asset == asset);
        Box::new(AssetEffects { asset, operations, hold })
    };
    Ok(orders.iter().map(of_order).collect())
}

impl AssetEffects {
    /// Whether the lock was refused, or the release was applied before the lock: no amount was moved.
    fn has_tombstone(&self, order: &Order) -> bool {
        match &self.hold {
            Some(hold) => hold.status == HoldStatus::Released && hold.amount == 0,
            None => is_cancelled_without_hold(order, self.asset, &self.operations),
        }
    }

    /// Whether the order was refunded before it earned points: it will not earn any.
    fn earns_nothing(&self) -> bool {
        self.operations.iter().any(|it| it.kind == OperationKind::Unearn && it.amount == 0)
    }

    /// Whether an order that was paid with this money earns points. If the consumer has applied the event, its record says so,
    /// because the rules may have changed since.
    fn earns(&self, paid: Money, record: Option<&Consumed>, points: PointsRules) -> bool {
        let has_earned = self.operations.iter().any(|it| it.kind == OperationKind::Earn);
        has_earned
            || match record.filter(|it| it.record.status == ConsumeStatus::Success) {
                Some(applied) => {
                    applied.consume_result.as_ref().is_some_and(|result| result.contains(EARNED))
                }
                None => points.earned(paid) > Points::ZERO,
            }
    }

    /// The operations that an event requires.
    fn required(
        &self,
        event: &EventBody,
        order: &Order,
        record: Option<&Consumed>,
        points: PointsRules,
    ) -> Vec<OperationKey> {
        let asset = self.asset;
        let is_held = order.assets.names(asset) && !self.has_tombstone(order);
        let mut required = Vec::new();
        if let EventBody::OrderCreated(_) = event {
            required.extend(is_held.then(|| OperationKey::freeze(asset, order.id)));
        } else if let EventBody::OrderPaid(paid) = event {
            required.extend(is_held.then(|| OperationKey::commit(asset, order.id)));
            let earns =
                asset == Asset::Points && !self.earns_nothing() && self.earns(paid.amount, record, points);
            required.extend(earns.then(|| OperationKey::earn(order.id)));
        } else if let EventBody::OrderCancelled(_) = event {
            required.extend(is_held.then(|| OperationKey::release(asset, order.id)));
        } else if let EventBody::OrderRefunded(refunded) = event {
            required.extend(is_held.then(|| match asset {
                Asset::Coupon => OperationKey::return_used(order.id),
                Asset::Wallet | Asset::Points | Asset::Cash => OperationKey::revert(asset, refunded.refund),
            }));
            required.extend((asset == Asset::Points).then(|| OperationKey::unearn(refunded.refund)));
        }
        required
    }
}

impl StoredEffects for AssetEffects {
    fn compare(
        &self,
        event: &EventBody,
        order: &Order,
        record: Option<&Consumed>,
        points: PointsRules,
    ) -> Effect {
        let mut missing = self.required(event, order, record, points);
        if missing.is_empty() {
            return Effect::Invisible;
        }
        missing.retain(|key| !self.operations.iter().any(|operation| operation.key == *key));
        Effect::Operations { missing }
    }

    fn rows(&self) -> Vec<EffectRow> {
        self.operations.iter().map(row_of_operation).collect()
    }
}

/// Writes the lost rows of asset operations whose entries exist. No amount is moved. If one of the operations has no
/// entries, writes nothing and returns `false`.
pub(super) async fn restore_operations(
    asset: Asset,
    unit: &mut Work,
    lost: &LostEffect<'_>,
) -> Result<bool, StoreError> {
    let Effect::Operations { missing } = lost.effect else { return Ok(false) };
    let order = lost.order;
    let entries = unit.entries_by_key(order.tenant, missing).await?;
    let refund =
        if let EventBody::OrderRefunded(refunded) = lost.event { Some(refunded.refund) } else { None };
    let mut postings = Vec::with_capacity(missing.len());
    for key in missing {
        let of_key: Vec<&Entry> =
            entries.iter().filter(|(of, _)| of == key).map(|(_, entry)| entry).collect();
        let Some(kind) = kind_of(key) else { return Ok(false) };
        if of_key.is_empty() {
            return Ok(false);
        }
        let operation = AssetOperation {
            tenant: order.tenant,
            key: key.clone(),
            asset,
            kind,
            user: Some(order.buyer),
            order: Some(order.id),
            refund,
            coupon: None,
            amount: of_key.iter().map(|entry| entry.amount.max(0)).sum(),
            balance_after: None,
            event_id: Some(lost.row.event_id.clone()),
            trace_id: Some(lost.row.trace_id().to_owned()),
            at: lost.now,
        };
        postings.push(Posting { operation, entries: Vec::new() });
    }
    unit.post(&postings).await?;
    Ok(true)
}

/// Derives the kind of a consumer's asset operation from the last part of the operation key.
fn kind_of(key: &OperationKey) -> Option<OperationKind> {
    match key.as_str().rsplit(':').next()? {
        "freeze" => Some(OperationKind::Freeze),
        "commit" => Some(OperationKind::Commit),
        "release" => Some(OperationKind::Release),
        "revert" => Some(OperationKind::Revert),
        "earn" => Some(OperationKind::Earn),
        "unearn" => Some(OperationKind::Unearn),
        _ => None,
    }
}
