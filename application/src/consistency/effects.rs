//! What each consumer must have done for an event, and what it did.

use std::fmt;

use chrono::{DateTime, Utc};
use handover_domain::{
    Asset, AssetOperation, EventBody, EventId, Hold, HoldStatus, OperationKey, OperationKind, Order,
    OrderStatus, Points, PointsRules,
};

use super::holds::{is_over_unheld, told_hold};
use crate::ports::{CreditChange, ListingChange, Notification, OutboxRow, ShipmentTask, StoreError, View};

/// The effects that are kept of one order.
pub(crate) struct Kept {
    listings: Vec<ListingChange>,
    shipments: Vec<ShipmentTask>,
    notifications: Vec<Notification>,
    credit: Vec<CreditChange>,
    operations: Vec<AssetOperation>,
    holds: Vec<Hold>,
}

/// What a consumer did for an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It leaves nothing that could be seen.
    Invisible,
    /// So many rows are there, where so many should be.
    Rows {
        /// In which table.
        table: &'static str,
        /// What is there.
        found: usize,
        /// What should be.
        wanted: usize,
    },
    /// Operations under these keys should be there and are not.
    Operations {
        /// The missing ones.
        missing: Vec<OperationKey>,
    },
}

impl Effect {
    /// Whether something is missing.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Effect::Invisible => false,
            Effect::Rows { found, wanted, .. } => found < wanted,
            Effect::Operations { missing } => !missing.is_empty(),
        }
    }

    /// Whether something is there more often than once.
    pub(crate) fn is_doubled(&self) -> bool {
        matches!(self, Effect::Rows { found, wanted, .. } if found > wanted)
    }

    /// Whether it can be seen that it took effect.
    pub(crate) fn is_there(&self) -> bool {
        match self {
            Effect::Invisible => false,
            Effect::Rows { found, wanted, .. } => *wanted > 0 && found >= wanted,
            Effect::Operations { missing } => missing.is_empty(),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Invisible => f.write_str("nothing that can be seen"),
            Effect::Rows { table, found, wanted } => {
                write!(f, "{found} rows in {table}, where {wanted} should be")
            }
            Effect::Operations { missing } => {
                f.write_str("no operation under")?;
                missing.iter().try_for_each(|key| write!(f, " {key}"))
            }
        }
    }
}

/// Reads what consumers did for an order.
pub(crate) async fn effects_of<V: View + ?Sized>(view: &mut V, order: &Order) -> Result<Kept, StoreError> {
    let (tenant, id) = (order.tenant, order.id);
    Ok(Kept {
        listings: view.listing_changes(tenant, id).await?,
        shipments: view.shipment_tasks(tenant, id).await?,
        notifications: view.notifications_about(tenant, id).await?,
        credit: view.credit_changes(tenant, id).await?,
        operations: view.operations_of(tenant, id).await?,
        holds: view.holds_of(tenant, id).await?,
    })
}

impl Kept {
    /// What a consumer did for an event of the order. What is wanted of an event that it consumed follows from what it
    /// says.
    pub(crate) fn of(
        &self,
        consumer: &str,
        row: &OutboxRow,
        body: &EventBody,
        (order, rules): (&Order, PointsRules),
    ) -> Effect {
        let is_its = |id: &EventId| *id == row.event_id;
        let rows = |table, found, wanted| Effect::Rows { table, found, wanted };
        match consumer {
            "inventory" => {
                let found = self.listings.iter().filter(|change| is_its(&change.event_id)).count();
                rows("listing_changes", found, 1)
            }
            "fulfillment" => {
                let found = self.shipments.iter().filter(|task| is_its(&task.event_id)).count();
                rows("shipments", found, 1)
            }
            "status-sync" => {
                let found = self.notifications.iter().filter(|told| is_its(&told.event_id)).count();
                rows("notifications", found, 2)
            }
            "buyer-credit" => {
                let found = self.credit.iter().filter(|change| is_its(&change.event_id)).count();
                rows("buyer_credit_changes", found, usize::from(counts(body)))
            }
            "coupon" => self.operations(Asset::Coupon, body, order, rules),
            "wallet" => self.operations(Asset::Wallet, body, order, rules),
            "points" => self.operations(Asset::Points, body, order, rules),
            _ => Effect::Invisible,
        }
    }

    fn operations(&self, asset: Asset, body: &EventBody, order: &Order, rules: PointsRules) -> Effect {
        let hold = self.holds.iter().find(|hold| hold.asset == asset);
        // Refused, or released before it was locked: there was nothing to move.
        let is_buried = match hold {
            Some(hold) => hold.status == HoldStatus::Released && hold.amount == 0,
            None => is_over_unheld(order, asset, &self.operations),
        };
        let is_held = order.assets.names(asset) && !is_buried;
        let mut wanted = Vec::new();
        match body {
            EventBody::OrderCreated(_) if is_held => wanted.push(OperationKey::freeze(asset, order.id)),
            EventBody::OrderPaid(_) if is_held => wanted.push(OperationKey::commit(asset, order.id)),
            EventBody::OrderCancelled(_) if is_held => wanted.push(OperationKey::release(asset, order.id)),
            EventBody::OrderRefunded(body) if is_held => wanted.push(match asset {
                Asset::Coupon => OperationKey::give_back(order.id),
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
                EventBody::OrderRefunded(body) => wanted.push(OperationKey::unearn(body.refund)),
                EventBody::OrderPaid(body)
                    if rules.earned(body.amount) > Points::ZERO && !self.earns_nothing() =>
                {
                    wanted.push(OperationKey::earn(order.id));
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
        if wanted.is_empty() {
            return Effect::Invisible;
        }
        wanted.retain(|key| !self.operations.iter().any(|operation| operation.key == *key));
        Effect::Operations { missing: wanted }
    }

    /// The holds that are gone although their operations, or the releases that were applied, tell of them.
    pub(crate) fn lost_holds(
        &self,
        order: &Order,
        is_released: impl Fn(Asset) -> bool,
        now: DateTime<Utc>,
    ) -> Vec<Hold> {
        let is_gone = |asset: &Asset| !self.holds.iter().any(|hold| hold.asset == *asset);
        let told = |asset| told_hold(order, asset, &self.operations, now);
        let is_due = |hold: &Hold| hold.amount > 0 || is_released(hold.asset);
        Asset::HELD.into_iter().filter(is_gone).filter_map(told).filter(is_due).collect()
    }

    /// Whether the order was paid back before it earned anything: then nothing is earned any more.
    fn earns_nothing(&self) -> bool {
        self.operations.iter().any(|it| it.kind == OperationKind::Unearn && it.amount == 0)
    }
}

fn counts(body: &EventBody) -> bool {
    use handover_domain::CreditStep;
    match body {
        EventBody::OrderCancelled(body) => CreditStep::of_cancellation(body.reason).is_some(),
        EventBody::OrderStatusChanged(body) => body.new_status == OrderStatus::Completed,
        EventBody::OrderCreated(_)
        | EventBody::OrderPaid(_)
        | EventBody::OrderTimeout(_)
        | EventBody::OrderRefunded(_)
        | EventBody::PaymentSucceeded(_)
        | EventBody::PaymentFailed(_)
        | EventBody::RefundSucceeded(_)
        | EventBody::RefundFailed(_)
        | EventBody::InvoiceGenerated(_) => false,
    }
}
