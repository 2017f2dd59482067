//! How a buyer buys, and wants the money back: with assets of all kinds, often more than there are.

use marketplace::App;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::journal::{Journal, Listed, Told};
use super::{by_operator, by_user, user};
use crate::faults::{Fault, Faults};

/// Somebody buys something.
pub(super) async fn buy(app: &App, faults: &Faults, journal: &Journal) {
    let Some(product) = faults.dice.pick(&journal.products()).copied() else { return };
    let buyer = user(100 + faults.dice.below(5));
    let who = format!("buyer {buyer}");
    let earns = app.rules.points.earned_per_unit > 1;
    let command = basket(faults, journal, (product, buyer), earns);
    let place = async || {
        let context = by_user(faults, product.tenant, buyer);
        match place_order(app, &context, command).await {
            Ok(order) => journal.placed(&who, product.tenant, order.id),
            Err(error) => journal.failed(&who, &context, &error),
        }
    };
    if faults.strikes(Fault::AsksTwice) {
        tokio::join!(place(), place());
    } else {
        place().await;
    }
}

/// What is to be paid with what. Nobody looks whether it has so much.
fn basket(faults: &Faults, journal: &Journal, (product, buyer): (Listed, UserId), earns: bool) -> PlaceOrder {
    let dice = &faults.dice;
    let mut command = PlaceOrder::of(product.id);
    // Mostly those who have been given something; or where much is earned, and can be spent.
    if !journal.has_gifts(product.tenant, buyer) {
        if earns && dice.permille(500) {
            let most = product.price.minor().min(4_000).unsigned_abs();
            let points = i64::try_from(1 + dice.below(most)).unwrap_or(1);
            command.points = Points::try_from(points).expect("a legal number");
        }
        return command;
    }
    if dice.permille(250) {
        return command;
    }
    let mut left = product.price.minor();
    let mine = |mine: &super::journal::Issued| (mine.tenant, mine.user) == (product.tenant, buyer);
    let mut coupons = journal.coupons();
    // Sometimes one that somebody else has: there is none of this number for this buyer.
    if !dice.permille(50) {
        coupons.retain(mine);
    }
    if dice.permille(500)
        && let Some(coupon) = dice.pick(&coupons)
    {
        command.coupon = Some(coupon.id);
        left = (left - coupon.discount.minor()).max(0);
    }
    let some = |most: i64| i64::try_from(dice.below(most.max(1).unsigned_abs())).unwrap_or(0);
    if dice.permille(300) {
        let points = if dice.permille(30) { left + 1 } else { some(left.min(4_000) + 1) };
        command.points = Points::try_from(points).expect("a legal number");
        left = (left - points).max(0);
    }
    if dice.permille(400) {
        // All that is left, or some of it, or more.
        let wallet = match dice.below(20) {
            0..=5 => left,
            6..=18 => some(left + 1),
            _ => left + 1,
        };
        command.wallet = Money::from_minor(wallet).expect("a legal amount");
    }
    command
}

/// The buyer or an operator wants the order paid back; sometimes the seller tries to ship it all the same.
pub(super) async fn refund(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let operator = faults.dice.permille(300);
    let who = if operator { "an operator".to_owned() } else { format!("buyer {}", order.buyer) };
    let ask = async || {
        let context = if operator {
            by_operator(faults, order.tenant)
        } else {
            by_user(faults, order.tenant, order.buyer)
        };
        let command = RequestRefund { order: order.id, reason: "not as described".to_owned() };
        match request_refund(app, &context, command).await {
            Ok(refund) if refund.order != order.id => faults.violation(format!(
                "order {} was asked to be paid back, refund {} is another's",
                order.id, refund.id
            )),
            Ok(refund) => journal.tell(&who, Told::Refunds(order.id, refund.id)),
            Err(error) => journal.failed(&who, &context, &error),
        }
    };
    if faults.strikes(Fault::AsksTwice) {
        tokio::join!(ask(), ask());
    } else {
        ask().await;
    }
    if faults.dice.permille(400) {
        ship(app, faults, journal, order).await;
    }
}

/// The seller ships.
pub(super) async fn ship(app: &App, faults: &Faults, journal: &Journal, order: &Order) {
    let shipment = Shipment::new("SF".into(), format!("SF{}", order.id)).expect("a legal shipment");
    let context = by_user(faults, order.tenant, order.seller);
    let who = format!("seller {}", order.seller);
    match ship_order(app, &context, order.id, shipment).await {
        Ok(after) => journal.tell(&who, Told::Reached(order.id, after.status)),
        Err(error) => {
            if matches!(error, UseCaseError::Order(OrderRefusal::Refunding { .. })) {
                faults.cover(|coverage| coverage.place("a shipment refused while its refund was running"));
            }
            journal.failed(&who, &context, &error);
        }
    }
}
