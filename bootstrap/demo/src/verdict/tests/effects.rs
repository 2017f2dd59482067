//! Violations of promises about effects.

use marketplace::ports::OrderSide;

use super::after;
use super::small_day::TIMED_OUT;

#[test]
fn missing_duplicate_or_unexplained_effect_breaks_promise_even_if_consume_log_is_correct() {
    let once = ["each effect exactly once"];
    assert_eq!(after(|day| drop(day.database.listing_changes.remove(0))), once);
    assert_eq!(after(|day| drop(day.database.shipments.remove(0))), once);
    assert_eq!(after(|day| drop(day.database.notifications.remove(0))), once);
    assert_eq!(after(|day| day.database.shipments.push(day.database.shipments[0].clone())), once);
    assert_eq!(after(|day| day.database.notifications.push(day.database.notifications[9].clone())), once);
    assert_eq!(after(|day| day.database.shipments[0].event_id = "event-999".parse().unwrap()), once);
    assert_eq!(after(|day| day.database.notifications[0].side = OrderSide::Seller), once);
    assert_eq!(after(|day| day.database.shipments[0].seller = 55.try_into().unwrap()), once);
    let twice = after(|day| day.database.credit_changes.push(day.database.credit_changes[0].clone()));
    assert_eq!(twice, ["each effect exactly once", "credit is the sum of its changes"]);
}

#[test]
fn effects_in_wrong_order_break_promise() {
    let order = ["effects are in event order"];
    assert_eq!(after(|day| day.database.listing_changes.reverse()), order);
    assert_eq!(after(|day| day.database.notifications.reverse()), order);
}

#[test]
fn credit_that_differs_from_its_changes_breaks_promise() {
    let credit = ["credit is the sum of its changes"];
    let buyer = TIMED_OUT.try_into().unwrap();
    assert_eq!(after(|day| day.database.credit.get_mut(&buyer).unwrap().score += 1), credit);
    assert_eq!(after(|day| drop(day.database.credit.remove(&buyer))), credit);
    let broken = after(|day| {
        let of = day.database.credit[&buyer].clone();
        day.database.credit.insert(77.try_into().unwrap(), of);
    });
    assert_eq!(broken, credit);
}
