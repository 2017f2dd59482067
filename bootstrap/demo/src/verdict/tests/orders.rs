//! Violations of promises about orders.

use chrono::TimeDelta;
use marketplace::consumers::TIMEOUT_QUEUE;
use marketplace_domain::{Order, OrderId, ProductStatus};

use super::super::super::journal::Step;
use super::after;
use super::small_day::{CANCELLED, COMPLETED, LAMP, PAID, PAID_ON_RETRY, SHIPPED, SmallDay, TIMED_OUT};

#[test]
fn missing_acknowledged_order_breaks_promise() {
    let broken = after(|day| {
        let id = PAID.try_into().unwrap();
        day.database.orders.remove(&id);
        day.database.payments.remove(&id);
        day.database.assets.operations.remove(&id);
        day.database.assets.captures.remove(&id);
        let of_order = |kind: &str, aggregate: i64| {
            (kind == "Order" && aggregate == PAID) || (kind == "Payment" && aggregate / 10 == PAID)
        };
        day.database.events.retain(|event| !of_order(&event.aggregate.kind, event.aggregate.id.number()));
        day.database.consumed.retain(|row| !of_order(&row.aggregate.kind, row.aggregate.id.number()));
        day.database.listing_changes.retain(|row| row.order != id);
        day.database.shipments.retain(|row| row.order != id);
        let events = &day.database.events;
        day.database.webhooks.retain(|it| events.iter().any(|event| event.event_id == it.event_id));
    });
    assert_eq!(broken, ["no acknowledged order is lost", "a product is sold once"]);
}

#[test]
fn unacknowledged_order_breaks_promise() {
    let broken = after(|day| {
        day.clients.orders.remove(&PAID.try_into().unwrap());
    });
    assert_eq!(broken, ["no acknowledged order is lost"]);
}

#[test]
fn order_state_that_differs_from_response_breaks_promise() {
    for (order, step) in [
        (COMPLETED, Step::Shipped),
        (SHIPPED, Step::Completed),
        (PAID, Step::Shipped),
        (PAID_ON_RETRY, Step::Placed),
        (CANCELLED, Step::Placed),
        (TIMED_OUT, Step::Cancelled),
        (TIMED_OUT, Step::Paid),
    ] {
        let broken = after(|day| day.client(order).step = step);
        assert_eq!(broken, ["order states match the responses"], "{order}: {step:?}");
    }
    let broken = after(|day| day.client(PAID).buyer = 50.try_into().unwrap());
    assert_eq!(broken, ["order states match the responses"]);
}

#[test]
fn payment_after_deadline_is_expected_if_refund_is_due() {
    let broken_if = |refund_due: bool| {
        after(|day| {
            let mut payment = day.database.payments[&PAID.try_into().unwrap()][0].clone();
            payment.refund_due = refund_due;
            let order = OrderId::try_from(TIMED_OUT).unwrap();
            (payment.id, payment.of) = (999.try_into().unwrap(), order.into());
            day.database.payments.entry(order).or_default().push(payment);
            day.client(TIMED_OUT).step = Step::Paid;
        })
    };
    // The payment added by this test has neither an event nor ledger entries, so it breaks further promises.
    assert_eq!(broken_if(true), ["no change without its event", "refunds equal captured amounts"]);
    let states = "order states match the responses";
    assert_eq!(broken_if(false), [states, "no change without its event", "refunds equal captured amounts"]);
}

#[test]
fn order_cancelled_too_late_too_early_or_without_message_breaks_promise() {
    for (seconds, kept) in [(3, true), (13, true), (14, false), (2, false)] {
        let broken_by = after(|day| {
            let row = day.row(TIMED_OUT);
            row.update_time = row.create_time + TimeDelta::seconds(seconds);
        });
        assert_eq!(broken_by.is_empty(), kept, "cancelled after {seconds} s: {broken_by:?}");
        assert!(broken_by.iter().all(|name| *name == "unpaid orders are cancelled in time"), "{broken_by:?}");
    }
    let untaken =
        |day: &mut SmallDay| day.injected.message_counts.retain(|(queue, _), _| queue != TIMEOUT_QUEUE);
    assert_eq!(after(untaken), ["unpaid orders are cancelled in time"], "cancelled, but not by a message");
}

#[test]
fn wrong_number_of_accepted_refused_or_stored_orders_of_the_only_lamp_breaks_promise() {
    let lamp = ["one buyer gets the lamp"];
    assert_eq!(after(|day| day.clients.rush.won.push(COMPLETED.try_into().unwrap())), lamp);
    assert_eq!(after(|day| day.clients.rush.won.clear()), lamp);
    assert_eq!(after(|day| day.clients.rush.refused = 62), lamp);
    let broken = after(|day| {
        let product = LAMP.try_into().unwrap();
        day.row(COMPLETED).product = product;
        day.client(COMPLETED).product = product;
    });
    assert_eq!(broken, ["one buyer gets the lamp", "a product is sold once"]);
}

#[test]
fn unacknowledged_second_order_of_sold_lamp_breaks_every_promise_about_the_order() {
    let broken = after(|day| {
        let sold = day.row(LAMP).clone();
        let id = 999.try_into().unwrap();
        day.database.orders.insert(id, Order { id, buyer: 50.try_into().unwrap(), ..sold });
    });
    assert_eq!(
        broken,
        [
            "no acknowledged order is lost",
            "one buyer gets the lamp",
            "a product is sold once",
            "every order has one ORDER_CREATED",
            "no change without its event",
            // The second order is completed, but has no payment that could earn points.
            "earned points match payments",
        ]
    );
}

#[test]
fn product_status_that_differs_from_its_order_breaks_promise() {
    for (order, status) in [
        (PAID, ProductStatus::OnSale),
        (CANCELLED, ProductStatus::Sold),
        (CANCELLED, ProductStatus::OffShelf),
    ] {
        let broken = after(|day| {
            day.database.products.get_mut(&order.try_into().unwrap()).unwrap().status = status;
        });
        assert_eq!(broken, ["a product is sold once"], "{order}: {status}");
    }
    let broken =
        after(|day| day.database.listings.values_mut().for_each(|listing| listing[0].taken_by = None));
    assert_eq!(broken, ["a product is sold once"], "the listing must name the order that bought the product");
}
