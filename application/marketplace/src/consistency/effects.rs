//! What each consumer must have done for an event, and what it did.

use std::fmt;

use chrono::{DateTime, Utc};
use handover_events::EventId;
use marketplace_domain::{
    Asset, AssetOperation, CancelReason, CreditStep, EventBody, Hold, HoldStatus, OperationKey,
    OperationKind, Order, OrderStatus, Points, PointsRules,
};

use super::holds::{is_over_unheld, told_hold};
use crate::ports::{
    CreditChange, EffectKind, ListingChange, ListingChangeKind, MarketView, Notification, SHIPMENT,
    ShipmentTask, notified_of,
};
use handover_outbox::ports::StoreError;

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
pub(crate) async fn effects_of<V: MarketView + ?Sized>(
    view: &mut V,
    order: &Order,
) -> Result<Kept, StoreError> {
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
    /// What a consumer did for the fact that an event of the order announces, by this event or by another one of the fact.
    pub(crate) fn of(
        &self,
        consumer: &str,
        body: &EventBody,
        (order, rules): (&Order, PointsRules),
    ) -> Effect {
        let rows =
            |kind: EffectKind, found: usize, wanted| Effect::Rows { table: kind.table(), found, wanted };
        match (consumer, body) {
            ("inventory", EventBody::OrderCreated(_)) => {
                let found = self.listings.iter().filter(|it| it.kind == ListingChangeKind::Occupied).count();
                // The event of an order that is over by now may have been stale.
                rows(EffectKind::ListingChange, found, if order.is_undone() { found.min(1) } else { 1 })
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
                let step = step_of(body);
                let found = self.credit.iter().filter(|it| Some(it.step) == step).count();
                rows(EffectKind::CreditChange, found, usize::from(step.is_some()))
            }
            ("coupon", _) => self.operations(Asset::Coupon, body, order, rules),
            ("wallet", _) => self.operations(Asset::Wallet, body, order, rules),
            ("points", _) => self.operations(Asset::Points, body, order, rules),
            _ => Effect::Invisible,
        }
    }

    /// Facts of the order that have the same effect more often than once.
    pub(crate) fn doubled(&self) -> Vec<FactRow> {
        let mut rows = self.fact_rows();
        rows.sort_by(|a, b| (a.table, &a.fact).cmp(&(b.table, &b.fact)));
        let same = |a: &FactRow, b: &FactRow| (a.table, &a.fact) == (b.table, &b.fact);
        rows.chunk_by(same).flat_map(|of_fact| of_fact.iter().skip(1).cloned()).collect()
    }

    /// Effects that the row of the order does not confirm.
    pub(crate) fn without_fact(&self, order: &Order) -> Vec<FactRow> {
        self.fact_rows().into_iter().filter(|row| !row.proof.is_in(order)).collect()
    }

    /// Every effect with its fact and the proof that it needs.
    fn fact_rows(&self) -> Vec<FactRow> {
        let row = |table, fact: String, event_id: Option<&EventId>, proof| FactRow {
            table,
            fact,
            event_id: event_id.cloned(),
            proof,
        };
        let listings = self.listings.iter().map(|it| {
            let proof = match it.kind {
                ListingChangeKind::Occupied => Proof::Exists,
                ListingChangeKind::Released => Proof::Undone,
            };
            row(EffectKind::ListingChange.table(), it.kind.as_str().to_owned(), Some(&it.event_id), proof)
        });
        let shipments = self.shipments.iter().map(|it| {
            row(EffectKind::Shipment.table(), SHIPMENT.to_owned(), Some(&it.event_id), Proof::Paid)
        });
        let notifications = self.notifications.iter().map(|it| {
            let proof = match it.new_status {
                OrderStatus::Shipped => Proof::Shipped,
                OrderStatus::Completed => Proof::Is(OrderStatus::Completed),
                OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Cancelled | OrderStatus::Refunded => {
                    Proof::Never
                }
            };
            let fact = notified_of(it.new_status, it.side);
            row(EffectKind::Notification.table(), fact, Some(&it.event_id), proof)
        });
        let credit = self.credit.iter().map(|it| {
            let proof = match it.step {
                CreditStep::Completed => Proof::Is(OrderStatus::Completed),
                CreditStep::CancelledByBuyer => Proof::CancelledFor(CancelReason::Buyer),
                CreditStep::CancelledByTimeout => Proof::CancelledFor(CancelReason::Timeout),
            };
            row(EffectKind::CreditChange.table(), it.step.as_str().to_owned(), Some(&it.event_id), proof)
        });
        let operations = self.operations.iter().map(|it| {
            let proof = match it.kind {
                OperationKind::Commit | OperationKind::Earn => Proof::Paid,
                OperationKind::Release => Proof::Is(OrderStatus::Cancelled),
                OperationKind::Revert | OperationKind::Unearn => Proof::Is(OrderStatus::Refunded),
                // Money is compared with payments and refunds; deposits, grants and issued coupons have no order.
                OperationKind::Freeze
                | OperationKind::Deposit
                | OperationKind::Grant
                | OperationKind::Issue
                | OperationKind::Capture
                | OperationKind::Payout => Proof::Exists,
            };
            row("asset_operations", it.key.to_string(), it.event_id.as_ref(), proof)
        });
        listings.chain(shipments).chain(notifications).chain(credit).chain(operations).collect()
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

/// An effect and the fact that it follows from.
#[derive(Debug, Clone)]
pub(crate) struct FactRow {
    /// Its table.
    pub(crate) table: &'static str,
    /// The fact: the natural key within the order.
    pub(crate) fact: String,
    /// The event that caused it.
    pub(crate) event_id: Option<EventId>,
    proof: Proof,
}

/// What the row of an order has to show for an effect to be confirmed.
#[derive(Debug, Clone, Copy)]
enum Proof {
    /// Nothing: it is enough that the order exists.
    Exists,
    Paid,
    Shipped,
    /// Cancelled or refunded.
    Undone,
    Is(OrderStatus),
    CancelledFor(CancelReason),
    /// No status of an order has this effect.
    Never,
}

impl Proof {
    fn is_in(self, order: &Order) -> bool {
        match self {
            Proof::Exists => true,
            Proof::Paid => order.was_paid(),
            Proof::Shipped => order.was_shipped(),
            Proof::Undone => order.is_undone(),
            Proof::Is(status) => order.status == status,
            Proof::CancelledFor(reason) => {
                order.status == OrderStatus::Cancelled && order.cancel_reason == Some(reason)
            }
            Proof::Never => false,
        }
    }
}

/// What an event counts as for the credit of its buyer.
fn step_of(body: &EventBody) -> Option<CreditStep> {
    match body {
        EventBody::OrderCancelled(body) => CreditStep::of_cancellation(body.reason),
        EventBody::OrderStatusChanged(body) => {
            (body.new_status == OrderStatus::Completed).then_some(CreditStep::Completed)
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
