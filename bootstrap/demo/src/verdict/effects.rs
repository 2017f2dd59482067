//! Promises about effects, counted where they are.

use std::collections::BTreeMap;

use handover_events::EventId;
use handover_outbox::ports::OutboxRow;
use marketplace::ports::{ListingChangeKind, OrderSide};
use marketplace_domain::{
    Asset, CreditCounts, CreditStep, EventBody, EventType, OperationKind, Order, OrderFacts, OrderId,
    OrderStatus, UserId,
};

use super::super::books::Books;
use super::holds::is_buried;
use super::{Against, Evidence, Promise, promise};

/// Who pays so much in money earns a point.
const A_POINT_MINOR: i64 = 100;

/// One effect: what it is, on whom, and the event that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Effect<'a> {
    event: &'a EventId,
    order: OrderId,
    kind: Kind,
    of: UserId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Occupied,
    Released,
    Shipment,
    ToldBuyer,
    ToldSeller,
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
            OrderSide::Buyer => Kind::ToldBuyer,
            OrderSide::Seller => Kind::ToldSeller,
        }
    }

    fn of_step(step: CreditStep) -> Kind {
        match step {
            CreditStep::Completed => Kind::CreditCompleted,
            CreditStep::CancelledByBuyer => Kind::CreditCancelled,
            CreditStep::CancelledByTimeout => Kind::CreditTimedOut,
        }
    }
}

/// Each effect of each event is there exactly once, and no other.
pub(super) fn once(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut against = Against::default();
    let mut due: Vec<Effect<'_>> = Vec::new();
    for event in &books.events {
        match due_of(books, event) {
            Some(effects) => due.extend(effects),
            None => against.add(|| format!("{} {}, which cannot be read", event.event_type, event.event_id)),
        }
    }
    let found = all(evidence);
    let mut counts: BTreeMap<Effect<'_>, usize> = BTreeMap::new();
    for effect in &found {
        *counts.entry(*effect).or_insert(0) += 1;
    }
    for effect in &due {
        match counts.remove(effect) {
            Some(1) => {}
            Some(times) => against.add(|| format!("{}, {times} times", said(effect))),
            None => against.add(|| format!("{}, missing", said(effect))),
        }
    }
    counts.keys().for_each(|effect| against.add(|| format!("{}, of no event", said(effect))));
    let (promised, found) = (format!("{} effects", due.len()), format!("{} effects", found.len()));
    promise("each effect exactly once", promised, found, &against)
}

fn said(effect: &Effect<'_>) -> String {
    format!("{:?} of order {} by {}", effect.kind, effect.order, effect.event)
}

/// What an event has to leave behind; `None` for one that cannot be read.
fn due_of<'a>(books: &Books, row: &'a OutboxRow) -> Option<Vec<Effect<'a>>> {
    let event_type: EventType = row.event_type.parse().ok()?;
    let payload = serde_json::from_str(&row.payload).ok()?;
    let effect =
        |order: &OrderFacts, kind, of| Effect { event: &row.event_id, order: order.order_id, kind, of };
    let on_assets = |order: &OrderFacts, kind: OperationKind| -> Vec<Effect<'a>> {
        let held = held(books, order.order_id).into_iter();
        held.map(|asset| effect(order, Kind::OnAsset(kind, asset), order.buyer_id)).collect()
    };
    let on_points = |order: &OrderFacts, kind: OperationKind| {
        effect(order, Kind::OnAsset(kind, Asset::Points), order.buyer_id)
    };
    Some(match EventBody::parse(event_type, &payload).ok()? {
        EventBody::OrderCreated(body) => {
            let mut due = on_assets(&body.order, OperationKind::Freeze);
            // An order that was over when it was seen to begin takes nothing.
            if !is_over(books, &body.order, Order::is_undone) || was_listed(books, &body.order) {
                due.push(effect(&body.order, Kind::Occupied, body.order.seller_id));
            }
            due
        }
        EventBody::OrderPaid(body) => {
            let mut due = on_assets(&body.order, OperationKind::Commit);
            if body.amount.minor() >= A_POINT_MINOR {
                due.push(on_points(&body.order, OperationKind::Earn));
            }
            // An order that was refunded by then is not shipped.
            let is_refunded = |order: &Order| order.status == OrderStatus::Refunded;
            let has_task = books.shipments.iter().any(|task| task.order == body.order.order_id);
            if !is_over(books, &body.order, is_refunded) || has_task {
                due.push(effect(&body.order, Kind::Shipment, body.order.seller_id));
            }
            due
        }
        EventBody::OrderStatusChanged(body) => {
            let told = [(Kind::ToldBuyer, body.order.buyer_id), (Kind::ToldSeller, body.order.seller_id)];
            let completed = (body.new_status == OrderStatus::Completed)
                .then_some((Kind::CreditCompleted, body.order.buyer_id));
            told.into_iter().chain(completed).map(|(kind, of)| effect(&body.order, kind, of)).collect()
        }
        EventBody::OrderCancelled(body) => {
            let counted = CreditStep::of_cancellation(body.reason);
            let counted = counted.map(|step| effect(&body.order, Kind::of_step(step), body.order.buyer_id));
            let freed = effect(&body.order, Kind::Released, body.order.seller_id);
            let mut due = on_assets(&body.order, OperationKind::Release);
            due.extend([freed].into_iter().chain(counted));
            due
        }
        EventBody::OrderRefunded(body) => {
            let mut due = on_assets(&body.order, OperationKind::Revert);
            // Also over nothing: then nothing will be earned any more.
            due.push(on_points(&body.order, OperationKind::Unearn));
            due.push(effect(&body.order, Kind::Released, body.order.seller_id));
            due
        }
        EventBody::OrderTimeout(_)
        | EventBody::PaymentSucceeded(_)
        | EventBody::PaymentFailed(_)
        | EventBody::RefundSucceeded(_)
        | EventBody::RefundFailed(_)
        | EventBody::InvoiceGenerated(_) => Vec::new(),
    })
}

fn is_over(books: &Books, order: &OrderFacts, how: impl Fn(&Order) -> bool) -> bool {
    books.orders.get(&order.order_id).is_some_and(how)
}

fn was_listed(books: &Books, order: &OrderFacts) -> bool {
    let mut of_order = books.listing_changes.iter().filter(|change| change.order == order.order_id);
    of_order.any(|change| change.kind == ListingChangeKind::Occupied)
}

/// The assets of an order that were locked for it.
fn held(books: &Books, order: OrderId) -> Vec<Asset> {
    let Some(row) = books.orders.get(&order) else { return Vec::new() };
    let holds = books.assets.holds.get(&order).map(Vec::as_slice).unwrap_or_default();
    let is_refused = |asset: Asset| holds.iter().any(|hold| hold.asset == asset && is_buried(hold));
    row.assets.named().filter(|asset| !is_refused(*asset)).collect()
}

/// Every effect that is there.
fn all<'a>(evidence: &Evidence<'a>) -> Vec<Effect<'a>> {
    let books = evidence.books;
    let listings = books.listing_changes.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::of_listing(row.kind),
        of: row.seller,
    });
    let shipments = books.shipments.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::Shipment,
        of: row.seller,
    });
    let notifications = books.notifications.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::of_side(row.side),
        of: row.recipient,
    });
    let credit = books.credit_changes.iter().map(|row| Effect {
        event: &row.event_id,
        order: row.order,
        kind: Kind::of_step(row.step),
        of: row.buyer,
    });
    let assets = books.assets.on_assets().filter_map(|row| {
        let (event, order) = (row.event_id.as_ref()?, row.order?);
        Some(Effect { event, order, kind: Kind::OnAsset(row.kind, row.asset), of: row.user })
    });
    listings.chain(shipments).chain(notifications).chain(credit).chain(assets).collect()
}

/// The effects of one order at one consumer came in the order of its events.
pub(super) fn in_order(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut last: BTreeMap<(&str, OrderId), i64> = BTreeMap::new();
    let mut against = Against::default();
    // A side of its own is a consumer of its own here: each person reads their own notifications.
    let listings = books.listing_changes.iter().map(|row| ("inventory", row.order, row.aggregate_seq));
    let shipments = books.shipments.iter().map(|row| ("fulfillment", row.order, row.aggregate_seq));
    let told = books.notifications.iter().map(|row| match row.side {
        OrderSide::Buyer => ("status-sync to the buyer", row.order, row.aggregate_seq),
        OrderSide::Seller => ("status-sync to the seller", row.order, row.aggregate_seq),
    });
    let credit = books.credit_changes.iter().map(|row| ("buyer-credit", row.order, row.aggregate_seq));
    let seqs: BTreeMap<&EventId, i64> =
        books.events.iter().map(|event| (&event.event_id, event.aggregate_seq)).collect();
    let assets = books
        .assets
        .on_assets()
        .filter_map(|it| Some((it.asset.as_str(), it.order?, *seqs.get(it.event_id.as_ref()?)?)));
    let mut orders = 0;
    for (consumer, order, seq) in listings.chain(shipments).chain(told).chain(credit).chain(assets) {
        match last.insert((consumer, order), seq) {
            // One that came twice is another promise.
            Some(earlier) if earlier > seq => {
                against.add(|| format!("order {order} at {consumer}: {seq} after {earlier}"));
            }
            Some(_) => {}
            None => orders += 1,
        }
    }
    let found = format!("{} of {orders}", orders - against.count.min(orders));
    promise("effects come in the order of events", format!("{orders} ways of orders"), found, &against)
}

/// Each buyer's credit is the sum of its changes.
pub(super) fn credit(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut sums: BTreeMap<UserId, CreditCounts> = BTreeMap::new();
    for change in &books.credit_changes {
        let counts = sums.entry(change.buyer).or_default();
        *counts = counts.and(change.step);
    }
    let mut against = Against::default();
    for buyer in books.credit.keys().filter(|buyer| !sums.contains_key(buyer)) {
        against.add(|| format!("buyer {buyer}, who did nothing that counts"));
    }
    for (buyer, counts) in &sums {
        let is = books.credit.get(buyer).map(|credit| (credit.counts, credit.score));
        if is != Some((*counts, counts.score())) {
            against.add(|| format!("buyer {buyer}: {is:?}, and the changes say {counts:?}"));
        }
    }
    let found = format!("{} buyers", books.credit.len());
    promise("credit is the sum of its changes", format!("{} buyers", sums.len()), found, &against)
}
