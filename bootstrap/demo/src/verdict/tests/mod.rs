//! Each promise notices what breaks it, and nothing else does.

#![allow(clippy::wildcard_enum_match_arm, reason = "the small day has few kinds of events")]

mod assets;
mod small_day;

use chrono::TimeDelta;
use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::ports::{DeadLetter, DeadLetterStatus};
use marketplace::ports::OrderSide;
use marketplace::queues::{FULFILLMENT_QUEUE, INVENTORY_QUEUE, TIMEOUT_QUEUE, WEBHOOK_QUEUE};
use marketplace_domain::{CancelReason, Order, OrderStatus, ProductStatus};

use super::super::journal::Step;
use small_day::{
    CANCELLED, COMPLETED, COPIED, LAMP, PAID, PAID_LATER, SENT_TWICE, SHIPPED, SmallDay, TIMED_OUT,
};

/// What is broken when this is done to a day on which nothing was.
#[track_caller]
fn after(change: impl FnOnce(&mut SmallDay)) -> Vec<&'static str> {
    let mut day = SmallDay::kept();
    change(&mut day);
    day.broken()
}

#[test]
fn on_a_day_without_a_fault_every_promise_is_kept_with_the_figures_it_names() {
    let day = SmallDay::kept();
    for promise in day.judged() {
        assert!(promise.kept, "{promise:?}");
    }
    let found = |name: &str| day.judged().into_iter().find(|promise| promise.name == name).unwrap();
    let of = |name: &str| (found(name).promised, found(name).found);
    let same = |text: &str| (text.to_owned(), text.to_owned());
    assert_eq!(of("no acknowledged order is lost"), same("11 orders"));
    // 11 x (created, timeout), 7 paid, 2 x (shipped, completed), 1 shipped, 4 cancelled, 1 refunded, 9 payments, 3 refunds.
    assert_eq!(of("no change without its event"), same("51 events"));
    // 11 + 4 + 1 listings, 7 shipments, 5 x 2 notifications, 2 + 2 + 1 credit, 3 x 2 + 3 x 3 + 2 on holds, 7 + 1 on points.
    assert_eq!(of("each effect exactly once"), same("63 effects"));
    assert_eq!(of("the ledger sums to zero"), same("0.00 in money, 0 points"));
    assert_eq!(of("every hold is resolved"), same("8 of 8"));
    assert_eq!(of("holds end as their orders do"), same("8 holds"));
    assert_eq!(of("a coupon is used once"), ("3 coupons".to_owned(), "1 used, 2 left".to_owned()));
    // 5 x 88 and 77: 88.50 less a coupon of 5.00, 5.00 of the wallet and 100 points.
    assert_eq!(of("points are earned by what was paid"), same("517 points"));
    assert_eq!(of("refunds are what was captured"), same("77.50 to 1 orders"));
    assert_eq!(of("a late payment is paid back once"), same("1 of 1"));
    assert_eq!(of("one buyer gets the lamp"), same("1 of 64 buyers, 63 told that it is sold"));
    assert_eq!(of("a product is sold once"), same("6 sold, 5 on sale"));
    assert_eq!(of("dead letters are explained"), same("1, 1 explained"));
    let ignored = "3 ignored, and 1 that were sent twice".to_owned();
    assert_eq!(of("what comes twice is ignored"), ("3 copies".to_owned(), ignored));
    let states = "4 cancelled, 2 completed, 3 paid, 1 refunded, 1 shipped".to_owned();
    assert_eq!(of("orders stand where their clients were told"), ("11 as told".to_owned(), states));
}

#[test]
fn an_answer_that_no_rule_explains_is_told() {
    assert_eq!(after(|day| day.told.odd.push("ship: 500 B0001".to_owned())), ["every answer is explained"]);
}

#[test]
fn an_acknowledged_order_that_is_gone_with_all_that_followed_is_told() {
    let broken = after(|day| {
        let id = PAID.try_into().unwrap();
        day.books.orders.remove(&id);
        day.books.payments.remove(&id);
        day.books.assets.operations.remove(&id);
        let of_order = |kind: &str, aggregate: i64| {
            (kind == "Order" && aggregate == PAID) || (kind == "Payment" && aggregate / 10 == PAID)
        };
        day.books.events.retain(|event| !of_order(&event.aggregate.kind, event.aggregate.id));
        day.books.consumed.retain(|row| !of_order(&row.aggregate.kind, row.aggregate.id));
        day.books.listing_changes.retain(|row| row.order != id);
        day.books.shipments.retain(|row| row.order != id);
    });
    assert_eq!(broken, ["no acknowledged order is lost", "a product is sold once"]);
}

#[test]
fn an_order_of_which_nobody_was_told_is_told() {
    let broken = after(|day| {
        day.told.orders.remove(&PAID.try_into().unwrap());
    });
    assert_eq!(broken, ["no acknowledged order is lost"]);
}

#[test]
fn an_order_that_stands_elsewhere_than_its_client_was_told_is_told() {
    for (order, step) in [
        (COMPLETED, Step::Shipped),
        (SHIPPED, Step::Completed),
        (PAID, Step::Shipped),
        (PAID_LATER, Step::Placed),
        (CANCELLED, Step::Placed),
        (TIMED_OUT, Step::Cancelled),
        (TIMED_OUT, Step::Paid),
    ] {
        let broken = after(|day| day.client(order).step = step);
        assert_eq!(broken, ["orders stand where their clients were told"], "{order}: {step:?}");
    }
    let broken = after(|day| day.client(PAID).buyer = 50.try_into().unwrap());
    assert_eq!(broken, ["orders stand where their clients were told"]);
}

#[test]
fn a_payment_after_the_deadline_is_as_told_if_it_is_owed_back() {
    let late = |owed: bool| {
        after(|day| {
            let mut payment = day.books.payments[&PAID.try_into().unwrap()][0].clone();
            payment.refund_due = owed;
            (payment.id, payment.order) = (999.try_into().unwrap(), TIMED_OUT.try_into().unwrap());
            day.books.payments.entry(payment.order).or_default().push(payment);
            day.client(TIMED_OUT).step = Step::Paid;
        })
    };
    // The payment of this test has neither event nor entries.
    assert_eq!(late(true), ["no change without its event", "a late payment is paid back once"]);
    let states = "orders stand where their clients were told";
    assert_eq!(late(false), [states, "no change without its event", "refunds are what was captured"]);
}

#[test]
fn an_order_that_is_closed_too_late_or_too_early_is_told() {
    for (seconds, broken) in [(3, true), (13, true), (14, false), (2, false)] {
        let broken_by = after(|day| {
            let row = day.row(TIMED_OUT);
            row.update_time = row.create_time + TimeDelta::seconds(seconds);
        });
        assert_eq!(broken_by.is_empty(), broken, "closed after {seconds} s: {broken_by:?}");
        assert!(broken_by.iter().all(|name| *name == "unpaid orders are closed in time"), "{broken_by:?}");
    }
    let untaken = |day: &mut SmallDay| day.happened.ways.retain(|(queue, _), _| queue != TIMEOUT_QUEUE);
    assert_eq!(after(untaken), ["unpaid orders are closed in time"], "closed, but not by a message");
}

#[test]
fn a_second_winner_a_missing_refusal_and_a_second_order_of_the_lamp_are_told() {
    let lamp = ["one buyer gets the lamp"];
    assert_eq!(after(|day| day.told.rush.won.push(COMPLETED.try_into().unwrap())), lamp);
    assert_eq!(after(|day| day.told.rush.won.clear()), lamp);
    assert_eq!(after(|day| day.told.rush.refused = 62), lamp);
    let broken = after(|day| {
        let product = LAMP.try_into().unwrap();
        day.row(COMPLETED).product = product;
        day.client(COMPLETED).product = product;
    });
    assert_eq!(broken, ["one buyer gets the lamp", "a product is sold once"]);
}

#[test]
fn an_order_of_the_lamp_that_nobody_placed_breaks_every_promise_about_it() {
    let broken = after(|day| {
        let sold = day.row(LAMP).clone();
        let id = 999.try_into().unwrap();
        day.books.orders.insert(id, Order { id, buyer: 50.try_into().unwrap(), ..sold });
    });
    assert_eq!(
        broken,
        [
            "no acknowledged order is lost",
            "one buyer gets the lamp",
            "a product is sold once",
            "every order is announced once",
            "no change without its event",
            // Nobody paid for an order that is completed.
            "points are earned by what was paid",
        ]
    );
}

#[test]
fn a_product_on_sale_that_is_sold_or_sold_that_is_free_is_told() {
    for (order, status) in [
        (PAID, ProductStatus::OnSale),
        (CANCELLED, ProductStatus::Sold),
        (CANCELLED, ProductStatus::OffShelf),
    ] {
        let broken = after(|day| {
            day.books.products.get_mut(&order.try_into().unwrap()).unwrap().status = status;
        });
        assert_eq!(broken, ["a product is sold once"], "{order}: {status}");
    }
    let broken = after(|day| day.books.listings.values_mut().for_each(|listing| listing[0].taken_by = None));
    assert_eq!(broken, ["a product is sold once"], "and the listing says the same");
}

#[test]
fn an_event_that_is_missing_is_told_as_a_gap() {
    for (order, kind) in [
        (PAID, "ORDER_PAID"),
        (TIMED_OUT, "ORDER_TIMEOUT"),
        (CANCELLED, "ORDER_CANCELLED"),
        (SHIPPED, "ORDER_STATUS_CHANGED"),
    ] {
        let broken = after(|day| {
            let at = day
                .books
                .events
                .iter()
                .position(|e| e.event_type == kind && e.aggregate.id == order)
                .unwrap();
            let event = day.books.events.remove(at);
            day.books.consumed.retain(|row| row.event_id != event.event_id);
            day.books.listing_changes.retain(|row| row.event_id != event.event_id);
            day.books.shipments.retain(|row| row.event_id != event.event_id);
            day.books.notifications.retain(|row| row.event_id != event.event_id);
            day.books.credit_changes.retain(|row| row.event_id != event.event_id);
            for operation in day.books.assets.operations.values_mut().flatten() {
                operation.event_id = operation.event_id.take().filter(|id| *id != event.event_id);
            }
            if kind == "ORDER_CANCELLED" {
                day.books.credit.remove(&order.try_into().unwrap());
            }
        });
        assert_eq!(broken, ["no change without its event"], "{kind}");
    }
}

#[test]
fn an_order_without_its_announcement_or_with_two_is_told() {
    let created =
        |day: &SmallDay| day.books.events.iter().position(|e| e.event_type == "ORDER_CREATED").unwrap();
    let broken = after(|day| {
        let event = day.books.events.remove(created(day));
        day.books.consumed.retain(|row| row.event_id != event.event_id);
        day.books.listing_changes.retain(|row| row.event_id != event.event_id);
    });
    assert_eq!(broken, ["every order is announced once", "no change without its event"]);
    let broken = after(|day| {
        let again = day.books.events[created(day)].clone();
        day.books.events.push(again);
    });
    assert!(
        broken.starts_with(&["every order is announced once", "no change without its event"]),
        "{broken:?}"
    );
}

#[test]
fn a_change_of_a_row_that_no_event_tells_is_told() {
    assert_eq!(after(|day| day.row(PAID).version += 1), ["no change without its event"]);
    let broken = after(|day| {
        let payments = day.books.payments.get_mut(&PAID.try_into().unwrap()).unwrap();
        payments[0].version += 1;
    });
    assert_eq!(broken, ["no change without its event"]);
}

#[test]
fn events_in_the_wrong_order_are_told() {
    let broken = after(|day| {
        let changed = |e: &&mut handover_outbox::ports::OutboxRow| {
            e.event_type == "ORDER_STATUS_CHANGED" && e.aggregate.id == COMPLETED
        };
        let seqs = [4, 3];
        for (event, seq) in day.books.events.iter_mut().filter(changed).zip(seqs) {
            event.aggregate_seq = seq;
        }
    });
    assert_eq!(broken, ["no change without its event"]);
}

#[test]
fn an_event_that_is_not_confirmed_is_told() {
    let pending = ["every event is confirmed", "nothing is still on its way"];
    assert_eq!(after(|day| day.books.events[5].status = OutboxStatus::New), pending);
    assert_eq!(after(|day| day.books.events[5].status = OutboxStatus::Retry), pending);
    let failed = after(|day| day.books.events[5].status = OutboxStatus::Failed);
    assert_eq!(failed, ["every event is confirmed"], "nobody waits for it any more");
}

#[test]
fn an_event_that_a_consumer_has_not_settled_is_told() {
    let settles = "every consumer settles every event";
    assert_eq!(after(|day| drop(day.books.consumed.remove(0))), [settles]);
    assert_eq!(after(|day| day.books.consumed[0].record.status = ConsumeStatus::Dead), [settles]);
    let way = [settles, "nothing is still on its way"];
    assert_eq!(after(|day| day.books.consumed[0].record.status = ConsumeStatus::Waiting), way);
    let twice = after(|day| {
        let again = day.books.consumed[0].clone();
        day.books.consumed.push(again);
    });
    assert_eq!(twice, [settles]);
    let stray = after(|day| day.books.consumed[0].consumer = "nobody".to_owned());
    assert_eq!(stray, [settles]);
}

#[test]
fn an_effect_that_is_missing_or_there_twice_or_of_no_event_is_told_whatever_the_consume_log_says() {
    let once = ["each effect exactly once"];
    assert_eq!(after(|day| drop(day.books.listing_changes.remove(0))), once);
    assert_eq!(after(|day| drop(day.books.shipments.remove(0))), once);
    assert_eq!(after(|day| drop(day.books.notifications.remove(0))), once);
    assert_eq!(after(|day| day.books.shipments.push(day.books.shipments[0].clone())), once);
    assert_eq!(after(|day| day.books.notifications.push(day.books.notifications[9].clone())), once);
    assert_eq!(after(|day| day.books.shipments[0].event_id = "event-999".parse().unwrap()), once);
    assert_eq!(after(|day| day.books.notifications[0].side = OrderSide::Seller), once);
    assert_eq!(after(|day| day.books.shipments[0].seller = 55.try_into().unwrap()), once);
    let twice = after(|day| day.books.credit_changes.push(day.books.credit_changes[0].clone()));
    assert_eq!(twice, ["each effect exactly once", "credit is the sum of its changes"]);
}

#[test]
fn effects_of_one_order_in_the_wrong_order_are_told() {
    let order = ["effects come in the order of events"];
    assert_eq!(after(|day| day.books.listing_changes.reverse()), order);
    assert_eq!(after(|day| day.books.notifications.reverse()), order);
}

#[test]
fn credit_that_is_not_the_sum_of_its_changes_is_told() {
    let credit = ["credit is the sum of its changes"];
    let buyer = TIMED_OUT.try_into().unwrap();
    assert_eq!(after(|day| day.books.credit.get_mut(&buyer).unwrap().score += 1), credit);
    assert_eq!(after(|day| drop(day.books.credit.remove(&buyer))), credit);
    let broken = after(|day| {
        let of = day.books.credit[&buyer].clone();
        day.books.credit.insert(77.try_into().unwrap(), of);
    });
    assert_eq!(broken, credit);
}

#[test]
fn a_copy_that_nobody_ignored_and_a_day_without_copies_are_told() {
    let ignored = ["what comes twice is ignored"];
    assert_eq!(after(|day| day.way(WEBHOOK_QUEUE, COPIED).acked = 1), ignored);
    assert_eq!(after(|day| day.way(INVENTORY_QUEUE, COPIED).acked = 2), ignored);
    let masked = after(|day| {
        day.way(INVENTORY_QUEUE, COPIED).acked = 2;
        day.way(WEBHOOK_QUEUE, SENT_TWICE).acked = 9;
    });
    assert_eq!(masked, ignored, "what was sent twice elsewhere makes up for nothing");
    assert_eq!(after(|day| day.happened.ways.values_mut().for_each(|way| way.copies = 0)), ignored);
    assert!(after(|day| day.way(WEBHOOK_QUEUE, COPIED).acked = 3).is_empty(), "a lost confirm makes more");
}

#[test]
fn a_spent_attempt_and_an_outage_that_was_none_are_told() {
    let outage = ["an outage costs no attempt"];
    assert_eq!(after(|day| day.books.events[0].retry_count = 1), outage);
    assert_eq!(after(|day| day.books.consumed[0].record.attempts = 2), outage);
    assert_eq!(after(|day| day.happened.away = None), outage);
    let short = after(|day| {
        let (from, until) = day.happened.away.unwrap();
        day.happened.away = Some((from, until - TimeDelta::milliseconds(1)));
    });
    assert_eq!(short, outage);
}

#[test]
fn a_dead_letter_that_is_open_missing_more_than_one_or_elsewhere_is_told() {
    let dead = ["dead letters are explained"];
    assert_eq!(after(|day| day.books.dead_letters[0].status = DeadLetterStatus::Open), dead);
    assert_eq!(after(|day| day.books.dead_letters[0].status = DeadLetterStatus::Replaying), dead);
    assert_eq!(after(|day| day.books.dead_letters[0].note = None), dead);
    assert_eq!(after(|day| day.books.dead_letters.clear()), dead);
    assert_eq!(after(|day| day.books.dead_letters.push(day.books.dead_letters[0].clone())), dead);
    let open = after(|day| {
        let explained = day.books.dead_letters[0].clone();
        let key = "nobody-explains-this".to_owned();
        let open = DeadLetter { key, status: DeadLetterStatus::Open, note: None, ..explained };
        day.books.dead_letters.push(open);
    });
    assert_eq!(open, dead);
    assert_eq!(after(|day| day.books.dead_letters[0].queue = "buyer.credit.queue".to_owned()), dead);
    assert_eq!(after(|day| day.happened.spoiled = None), dead);
    assert_eq!(
        after(|day| day.way(FULFILLMENT_QUEUE, 1).whole = 1),
        dead,
        "its event came there unspoiled too"
    );
    assert!(after(|day| day.way(WEBHOOK_QUEUE, 1).whole = 9).is_empty(), "elsewhere it comes as it is");
    assert!(after(|day| day.books.dead_letters[0].status = DeadLetterStatus::Replayed).is_empty());
}

#[test]
fn messages_in_the_queues_and_unpaid_orders_are_still_on_their_way() {
    assert_eq!(after(|day| day.queued = 1), ["nothing is still on its way"]);
    let broken = after(|day| {
        let row = day.row(TIMED_OUT);
        (row.status, row.cancel_reason) = (OrderStatus::Pending, None::<CancelReason>);
    });
    assert!(broken.contains(&"unpaid orders are closed in time"), "{broken:?}");
    assert!(broken.contains(&"nothing is still on its way"), "{broken:?}");
}
