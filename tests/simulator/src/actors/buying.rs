//! Orders of buyers, and refund requests; orders use all kinds of assets, often more than the buyer has.

use marketplace::App;
use marketplace::use_cases::{PlaceOrder, RequestRefund, UseCaseError};
use marketplace_domain::{Money, Order, OrderRefusal, Points, Shipment, UserId};

use super::journal::{ClientResponse, Journal, ListedProduct};
use super::{by_operator, by_user, user};
use crate::fault_kinds::Fault;
use crate::faults::Faults;

/// A random buyer orders a random product.
pub(super) async fn buy(app: &App, faults: &Faults, journal: &Journal) {
    let Some(product) = faults.random.pick(&journal.products()).copied() else { return };
    let buyer = user(100 + faults.random.below(5));
    let who = format!("buyer {buyer}");
    let earns_much = app.rules.points.earned_per_unit > 1;
    let command = choose_assets(faults, journal, (product, buyer), earns_much);
    let place = async || {
        let context = by_user(faults, product.tenant, buyer);
        match app.ordering.place(&context, command).await {
            Ok(order) => journal.record_placed(&who, product.tenant, order.id),
            Err(error) => journal.record_error(&who, &context, &error),
        }
    };
    if faults.occurs(Fault::ConcurrentRepeat) {
        tokio::join!(place(), place());
    } else {
        place().await;
    }
}

/// Chooses the assets of an order, without regard to the buyer's balance.
fn choose_assets(
    faults: &Faults,
    journal: &Journal,
    (product, buyer): (ListedProduct, UserId),
    earns_much: bool,
) -> PlaceOrder {
    let random = &faults.random;
    let mut command = PlaceOrder::of(product.id);
    // A buyer without grants can only have earned points, and uses them only if points are earned at a high rate.
    if !journal.has_grants(product.tenant, buyer) {
        if earns_much && random.permille(500) {
            let most = product.price.minor().min(4_000).unsigned_abs();
            let points = i64::try_from(1 + random.below(most)).unwrap_or(1);
            command.points = Points::try_from(points).expect("a valid number");
        }
        return command;
    }
    if random.permille(250) {
        return command;
    }
    let mut left = product.price.minor();
    let is_own =
        |coupon: &super::journal::IssuedCoupon| (coupon.tenant, coupon.user) == (product.tenant, buyer);
    let mut coupons = journal.coupons();
    // In a few cases the coupon may belong to another user; the order must then be rejected.
    if !random.permille(50) {
        coupons.retain(is_own);
    }
    if random.permille(500)
        && let Some(coupon) = random.pick(&coupons)
    {
        command.coupon = Some(coupon.id);
        left = (left - coupon.discount.minor()).max(0);
    }
    let some = |most: i64| i64::try_from(random.below(most.max(1).unsigned_abs())).unwrap_or(0);
    if random.permille(300) {
        let points = if random.permille(30) { left + 1 } else { some(left.min(4_000) + 1) };
        command.points = Points::try_from(points).expect("a valid number");
        left = (left - points).max(0);
    }
    if random.permille(400) {
        // The wallet amount of the order is the remaining amount, a part of it, or one minor unit more.
        let wallet = match random.below(20) {
            0..=5 => left,
            6..=18 => some(left + 1),
            _ => left + 1,
        };
        command.wallet = Money::from_minor(wallet).expect("a valid amount");
    }
    command
}

/// The buyer, the seller or an operator requests a refund; afterwards the seller sometimes tries to ship the order.
pub(super) async fn refund(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let (who, party) = match faults.random.below(10) {
        0..=2 => ("an operator".to_owned(), None),
        3 | 4 => (format!("seller {}", order.seller), Some(order.seller)),
        _ => (format!("buyer {}", order.buyer), Some(order.buyer)),
    };
    let off_shelf = party == Some(order.seller) && faults.random.permille(500);
    let request = async || {
        let context = match party {
            Some(party) => by_user(faults, order.tenant, party),
            None => by_operator(faults, order.tenant),
        };
        let command = RequestRefund { order: order.id, reason: "not as described".to_owned(), off_shelf };
        match app.payments.request_refund(&context, command).await {
            Ok(refund) if refund.of != order.id.into() => faults.violation(format!(
                "the refund request for order {} returned refund {} of another order",
                order.id, refund.id
            )),
            Ok(refund) => journal.record(&who, ClientResponse::RefundRequested(order.id.into(), refund.id)),
            Err(error) => journal.record_error(&who, &context, &error),
        }
    };
    if faults.occurs(Fault::ConcurrentRepeat) {
        tokio::join!(request(), request());
    } else {
        request().await;
    }
    if faults.random.permille(400) {
        ship(app, faults, journal, order).await;
    }
}

/// The seller ships the order.
pub(super) async fn ship(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let shipment = Shipment::new("SF".into(), format!("SF{}", order.id)).expect("a valid shipment");
    let context = by_user(faults, order.tenant, order.seller);
    let who = format!("seller {}", order.seller);
    match app.ordering.ship(&context, order.id, shipment).await {
        Ok(after) => journal.record(&who, ClientResponse::StatusReached(order.id, after.status)),
        Err(error) => {
            if matches!(error, UseCaseError::Refused(OrderRefusal::Refunding { .. })) {
                faults.cover(|coverage| coverage.situation("shipment refused during a refund"));
            }
            journal.record_error(&who, &context, &error);
        }
    }
}
