//! Promises about effects. Effects are counted in their own tables.

use std::collections::BTreeMap;

use handover_events::EventId;
use handover_outbox::ports::OutboxRow;
use marketplace::ports::{ListingChangeKind, OrderSide};
use marketplace_domain::{
    Asset, CreditCounts, CreditOutcome, EventBody, EventKind, OperationKind, Order, OrderFacts, OrderId,
    OrderStatus, UserId,
};

use super::super::database_snapshot::DatabaseSnapshot;
use super::holds::is_tombstone;
use super::promise::{Evidence, Promise, Violations, promise};

/// Amount of money, in minor units, that earns one point.
const MINOR_PER_POINT: i64 = 100;

/// One effect of an event on a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Effect<'a> {
    event: &'a EventId,
    order: OrderId,
    kind: Kind,
    user: UserId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Occupied,
    Released,
    Shipment,
    NotifiedBuyer,
    NotifiedSeller,
    CreditCompleted,
    CreditCancelled,
    CreditTimedOut,
    OnAsset(OperationKind, Asset),
}

impl Kind {
    fn of_listing(kind: ListingChangeKind) -> Kind {
        match kind {
            ListingChangeKind::Occupied => Kind::Occupied,
            ListingChangeKind::Released => Kind::Released,
        }
    }

    fn of_side(side: OrderSide) -> Kind {
        match side {
            OrderSide::Buyer => Kind::NotifiedBuyer,
            OrderSide::Seller => Kind::NotifiedSeller,
        }
    }

    fn of_step(step: CreditOutcome) -> Kind {
        match step {
            CreditOutcome::Completed => Kind::CreditCompleted,
            CreditOutcome::CancelledByBuyer => Kind::CreditCancelled,
            CreditOutcome::CancelledByTimeout => Kind::CreditTimedOut,
        }
    }
}

/// Promise: each event has each of its effects exactly once, and there are no other effects.
pub(super) fn exactly_once(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut violations = Violations::default();
    let mut expected: Vec<Effect<'_>> = Vec::new();
    for event in database.market_events() {
        match expected_effects(database, event) {
            Some(effects) => expected.extend(effects),
            None => violations.add(|| format!("{} {}: unreadable payload", event.event_type, event.event_id)),
        }
    }
    let found = recorded_effects(evidence);
    let mut counts: BTreeMap<Effect<'_>, usize> = BTreeMap::new();
    for effect in &found {
        *counts.entry(*effect).or_insert(0) += 1;
    }
    for effect in &expected {
        match counts.remove(effect) {
            Some(1) => {}
            Some(times) => violations.add(|| format!("{}, applied {times} times", describe(effect))),
            None => violations.add(|| format!("{}, missing", describe(effect))),
        }
    }
    counts
        .keys()
        .for_each(|effect| violations.add(|| format!("{}, which no event requires", describe(effect))));
    let (promised, found) = (format!("{} effects", expected.len()), format!("{} effects", found.len()));
    promise("each effect exactly once", promised, found, &violations)
}

fn describe(effect: &Effect<'_>) -> String {
    format!("{:?} of order {} by {}", effect.kind, effect.order, effect.event)
}

/// The effects that an event must have; `None` if the event cannot be parsed.
fn expected_effects<'a>(database: &DatabaseSnapshot, row: &'a OutboxRow) -> Option<Vec<Effect<'a>>> {
    let event_type: EventKind = row.event_type.parse().ok()?;
    let payload = serde_json::from_str(&row.payload).ok()?;
    let effect =
        |order: &OrderFacts, kind, user| Effect { event: &row.event_id, order: order.order_id, kind, user };
    let on_assets = |order: &OrderFacts, kind: OperationKind| -> Vec<Effect<'a>> {
        let locked = locked_assets(database, order.order_id).into_iter();
        locked.map(|asset| effect(order, Kind::OnAsset(kind, asset), order.buyer_id)).collect()
    };
    let on_points = |order: &OrderFacts, kind: OperationKind| {
        effect(order, Kind::OnAsset(kind, Asset::Points), order.buyer_id)
    };
    let body = EventBody::parse(event_type, &payload).ok()?;
    Some(if let EventBody::OrderCreated(body) = &body {
        let mut expected = on_assets(&body.order, OperationKind::Freeze);
        // If the order was already cancelled or refunded when the event was applied, the event is stale and does
        // not change the seller's listing.
        if !order_is(database, &body.order, Order::is_cancelled_or_refunded)
            || was_listed(database, &body.order)
        {
            expected.push(effect(&body.order, Kind::Occupied, body.order.seller_id));
        }
        expected
    } else if let EventBody::OrderPaid(body) = &body {
        let mut expected = on_assets(&body.order, OperationKind::Commit);
        if body.amount.minor() >= MINOR_PER_POINT {
            expected.push(on_points(&body.order, OperationKind::Earn));
        }
        // If the order was already refunded when the event was applied, the event is stale and adds no shipment
        // task.
        let is_refunded = |order: &Order| order.status == OrderStatus::Refunded;
        let has_task = database.shipments.iter().any(|task| task.order == body.order.order_id);
        if !order_is(database, &body.order, is_refunded) || has_task {
            expected.push(effect(&body.order, Kind::Shipment, body.order.seller_id));
        }
        expected
    } else if let EventBody::OrderStatusChanged(body) = &body {
        let notified =
            [(Kind::NotifiedBuyer, body.order.buyer_id), (Kind::NotifiedSeller, body.order.seller_id)];
        let completed = (body.new_status == OrderStatus::Completed)
            .then_some((Kind::CreditCompleted, body.order.buyer_id));
        notified.into_iter().chain(completed).map(|(kind, user)| effect(&body.order, kind, user)).collect()
    } else if let EventBody::OrderCancelled(body) = &body {
        let counted = CreditOutcome::of_cancellation(body.reason);
        let counted = counted.map(|step| effect(&body.order, Kind::of_step(step), body.order.buyer_id));
        let freed = effect(&body.order, Kind::Released, body.order.seller_id);
        let mut expected = on_assets(&body.order, OperationKind::Release);
        expected.extend([freed].into_iter().chain(counted));
        expected
    } else if let EventBody::OrderRefunded(body) = &body {
        let mut expected = on_assets(&body.order, OperationKind::Revert);
        // An `Unearn` operation is expected even if no points were earned: it prevents a later event from earning
        // points.
        expected.push(on_points(&body.order, OperationKind::Unearn));
        expected.push(effect(&body.order, Kind::Released, body.order.seller_id));
        expected
    } else {
        Vec::new()
    })
}

fn order_is(database: &DatabaseSnapshot, order: &OrderFacts, how: impl Fn(&Order) -> bool) -> bool {
    database.orders.get(&order.order_id).is_some_and(how)
}

fn was_listed(database: &DatabaseSnapshot, order: &OrderFacts) -> bool {
    let mut of_order = database.listing_changes.iter().filter(|change| change.order == order.order_id);
    of_order.any(|change| change.kind == ListingChangeKind::Occupied)
}

/// The assets of an order, except those whose lock was rejected.
fn locked_assets(database: &DatabaseSnapshot, order: OrderId) -> Vec<Asset> {
    let Some(row) = database.orders.get(&order) else { return Vec::new() };
    let holds = database.assets.holds.get(&order).map(Vec::as_slice).unwrap_or_default();
    let is_conflict = |asset: Asset| holds.iter().any(|hold| hold.asset == asset && is_tombstone(hold));
    row.assets.named().filter(|asset| !is_conflict(*asset)).collect()
}

/// Every effect in the database.
fn recorded_effects<'a>(evidence: &Evidence<'a>) -> Vec<Effect<'a>> {
    let database = evidence.database;
    let listings = database.listing_changes.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::of_listing(row.kind),
        user: row.seller,
    });
    let shipments = database.shipments.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::Shipment,
        user: row.seller,
    });
    let notifications = database.notifications.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::of_side(row.side),
        user: row.recipient,
    });
    let credit = database.credit_changes.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::of_step(row.step),
        user: row.buyer,
    });
    let assets = database.assets.on_assets().filter_map(|row| {
        let event = row.event_id.as_ref()?;
        let kind = Kind::OnAsset(row.kind, row.asset);
        Some(Effect { event, order: row.order?, kind, user: row.user? })
    });
    listings.chain(shipments).chain(notifications).chain(credit).chain(assets).collect()
}

/// Promise: each consumer applied the events of an order in sequence.
pub(super) fn in_order(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut last: BTreeMap<(&str, OrderId), i64> = BTreeMap::new();
    let mut violations = Violations::default();
    // Notifications to buyer and seller are checked separately: each person reads only their own.
    let listings = database.listing_changes.iter().map(|row| ("inventory", row.order, row.aggregate_seq));
    let shipments = database.shipments.iter().map(|row| ("fulfillment", row.order, row.aggregate_seq));
    let notifications = database.notifications.iter().map(|row| match row.side {
        OrderSide::Buyer => ("status-sync to the buyer", row.order, row.aggregate_seq),
        OrderSide::Seller => ("status-sync to the seller", row.order, row.aggregate_seq),
    });
    let credit = database.credit_changes.iter().map(|row| ("buyer-credit", row.order, row.aggregate_seq));
    let seqs: BTreeMap<&EventId, i64> =
        database.events.iter().map(|event| (&event.event_id, event.aggregate_seq)).collect();
    let assets = database.assets.on_assets().filter_map(|operation| {
        Some((operation.asset.as_str(), operation.order?, *seqs.get(operation.event_id.as_ref()?)?))
    });
    let mut orders = 0;
    for (consumer, order, seq) in listings.chain(shipments).chain(notifications).chain(credit).chain(assets) {
        match last.insert((consumer, order), seq) {
            // Equal sequence numbers are not a violation: they belong to effects of one event. Another promise covers
            // duplicates.
            Some(earlier) if earlier > seq => {
                violations.add(|| {
                    format!("order {order} at {consumer}: event {seq} applied after event {earlier}")
                });
            }
            Some(_) => {}
            None => orders += 1,
        }
    }
    let found = format!("{} of {orders}", orders - violations.count.min(orders));
    promise("effects are in event order", format!("{orders} event sequences"), found, &violations)
}

/// Promise: each buyer's credit is the sum of its changes.
pub(super) fn credit(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut sums: BTreeMap<UserId, CreditCounts> = BTreeMap::new();
    for change in &database.credit_changes {
        let counts = sums.entry(change.buyer).or_default();
        *counts = counts.and(change.step);
    }
    let mut violations = Violations::default();
    for buyer in database.credit.keys().filter(|buyer| !sums.contains_key(buyer)) {
        violations.add(|| format!("buyer {buyer}: a credit row, but no credit changes"));
    }
    for (buyer, counts) in &sums {
        let actual = database.credit.get(buyer).map(|credit| (credit.counts, credit.score));
        if actual != Some((*counts, counts.score())) {
            violations.add(|| format!("buyer {buyer}: {actual:?}, expected from the changes: {counts:?}"));
        }
    }
    let found = format!("{} buyers", database.credit.len());
    promise("credit is the sum of its changes", format!("{} buyers", sums.len()), found, &violations)
}
