//! Each violation breaks the promises that cover it.

#![allow(clippy::wildcard_enum_match_arm, reason = "the small day has few event types")]

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
    CANCELLED, COMPLETED, COPIED, LAMP, PAID, PAID_ON_RETRY, REPUBLISHED, SHIPPED, SmallDay, TIMED_OUT,
};

/// Applies a change to a day without violations and returns the broken promises.
#[track_caller]
fn after(change: impl FnOnce(&mut SmallDay)) -> Vec<&'static str> {
    let mut day = SmallDay::correct();
    change(&mut day);
    day.broken()
}

#[test]
fn correct_day_keeps_every_promise_with_expected_figures() {
    let day = SmallDay::correct();
    for promise in day.results() {
        assert!(promise.kept, "{promise:?}");
    }
    let found = |name: &str| day.results().into_iter().find(|promise| promise.name == name).unwrap();
    let of = |name: &str| (found(name).promised, found(name).found);
    let same = |text: &str| (text.to_owned(), text.to_owned());
    assert_eq!(of("no acknowledged order is lost"), same("11 orders"));
    // 11 x (created, timeout), 7 paid, 2 x (shipped, completed), 1 shipped, 4 cancelled, 1 refunded, 9 payments, 3
    // refunds.
    assert_eq!(of("no change without its event"), same("51 events"));
    // 11 + 4 + 1 listings, 7 shipments, 5 x 2 notifications, 2 + 2 + 1 credit, 3 x 2 + 3 x 3 + 2 on holds, 7 + 1 on
    // points.
    assert_eq!(of("each effect exactly once"), same("63 effects"));
    assert_eq!(of("the ledger sums to zero"), same("0.00 in money, 0 points"));
    assert_eq!(of("every hold is resolved"), same("8 of 8"));
    assert_eq!(of("holds match their orders"), same("8 holds"));
    assert_eq!(of("no coupon is used twice"), ("3 coupons".to_owned(), "1 used, 2 left".to_owned()));
    // 5 x 88, and 77 for an order of 88.50 that uses a coupon of 5.00, 5.00 of the wallet and 100 points.
    assert_eq!(of("earned points match payments"), same("517 points"));
    assert_eq!(of("refunds equal captured amounts"), same("77.50 refunded, 1 order(s)"));
    assert_eq!(of("a late payment is refunded once"), same("1 of 1"));
    assert_eq!(of("one buyer gets the lamp"), same("1 of 64 buyers, 63 refused"));
    assert_eq!(of("a product is sold once"), same("6 sold, 5 on sale"));
    assert_eq!(of("dead letters are explained"), same("1, 1 explained"));
    let ignored = "3 ignored, and 1 republished".to_owned();
    assert_eq!(of("duplicate messages are ignored"), ("3 copies".to_owned(), ignored));
    let states = "4 cancelled, 2 completed, 3 paid, 1 refunded, 1 shipped".to_owned();
    assert_eq!(of("order states match the responses"), ("11 as acknowledged".to_owned(), states));
}

#[test]
fn unexpected_response_breaks_promise() {
    assert_eq!(
        after(|day| day.clients.unexpected.push("ship: 500 B0001".to_owned())),
        ["every response is expected"]
    );
}

#[test]
fn missing_acknowledged_order_breaks_promise() {
    let broken = after(|day| {
        let id = PAID.try_into().unwrap();
        day.database.orders.remove(&id);
        day.database.payments.remove(&id);
        day.database.assets.operations.remove(&id);
        let of_order = |kind: &str, aggregate: i64| {
            (kind == "Order" && aggregate == PAID) || (kind == "Payment" && aggregate / 10 == PAID)
        };
        day.database.events.retain(|event| !of_order(&event.aggregate.kind, event.aggregate.id));
        day.database.consumed.retain(|row| !of_order(&row.aggregate.kind, row.aggregate.id));
        day.database.listing_changes.retain(|row| row.order != id);
        day.database.shipments.retain(|row| row.order != id);
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
            (payment.id, payment.order) = (999.try_into().unwrap(), TIMED_OUT.try_into().unwrap());
            day.database.payments.entry(payment.order).or_default().push(payment);
            day.client(TIMED_OUT).step = Step::Paid;
        })
    };
    // The payment added by this test has neither an event nor ledger entries.
    assert_eq!(broken_if(true), ["no change without its event", "a late payment is refunded once"]);
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
fn second_accepted_order_missing_refusal_and_second_order_of_lamp_break_promise() {
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
fn unacknowledged_order_of_lamp_breaks_every_promise_about_it() {
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
            // The order is completed without a payment.
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

#[test]
fn missing_event_breaks_promise() {
    for (order, kind) in [
        (PAID, "ORDER_PAID"),
        (TIMED_OUT, "ORDER_TIMEOUT"),
        (CANCELLED, "ORDER_CANCELLED"),
        (SHIPPED, "ORDER_STATUS_CHANGED"),
    ] {
        let broken = after(|day| {
            let at = day
                .database
                .events
                .iter()
                .position(|e| e.event_type == kind && e.aggregate.id == order)
                .unwrap();
            let event = day.database.events.remove(at);
            day.database.consumed.retain(|row| row.event_id != event.event_id);
            day.database.listing_changes.retain(|row| row.event_id != event.event_id);
            day.database.shipments.retain(|row| row.event_id != event.event_id);
            day.database.notifications.retain(|row| row.event_id != event.event_id);
            day.database.credit_changes.retain(|row| row.event_id != event.event_id);
            for operation in day.database.assets.operations.values_mut().flatten() {
                operation.event_id = operation.event_id.take().filter(|id| *id != event.event_id);
            }
            if kind == "ORDER_CANCELLED" {
                day.database.credit.remove(&order.try_into().unwrap());
            }
        });
        assert_eq!(broken, ["no change without its event"], "{kind}");
    }
}

#[test]
fn order_without_or_with_two_created_events_breaks_promise() {
    let created =
        |day: &SmallDay| day.database.events.iter().position(|e| e.event_type == "ORDER_CREATED").unwrap();
    let broken = after(|day| {
        let event = day.database.events.remove(created(day));
        day.database.consumed.retain(|row| row.event_id != event.event_id);
        day.database.listing_changes.retain(|row| row.event_id != event.event_id);
    });
    assert_eq!(broken, ["every order has one ORDER_CREATED", "no change without its event"]);
    let broken = after(|day| {
        let again = day.database.events[created(day)].clone();
        day.database.events.push(again);
    });
    assert!(
        broken.starts_with(&["every order has one ORDER_CREATED", "no change without its event"]),
        "{broken:?}"
    );
}

#[test]
fn version_without_event_breaks_promise() {
    assert_eq!(after(|day| day.row(PAID).version += 1), ["no change without its event"]);
    let broken = after(|day| {
        let payments = day.database.payments.get_mut(&PAID.try_into().unwrap()).unwrap();
        payments[0].version += 1;
    });
    assert_eq!(broken, ["no change without its event"]);
}

#[test]
fn events_in_wrong_order_break_promise() {
    let broken = after(|day| {
        let changed = |e: &&mut handover_outbox::ports::OutboxRow| {
            e.event_type == "ORDER_STATUS_CHANGED" && e.aggregate.id == COMPLETED
        };
        let seqs = [4, 3];
        for (event, seq) in day.database.events.iter_mut().filter(changed).zip(seqs) {
            event.aggregate_seq = seq;
        }
    });
    assert_eq!(broken, ["no change without its event"]);
}

#[test]
fn unconfirmed_event_breaks_promise() {
    let pending = ["every event is confirmed", "nothing is pending"];
    assert_eq!(after(|day| day.database.events[5].status = OutboxStatus::New), pending);
    assert_eq!(after(|day| day.database.events[5].status = OutboxStatus::Retry), pending);
    let failed = after(|day| day.database.events[5].status = OutboxStatus::Failed);
    assert_eq!(failed, ["every event is confirmed"], "a FAILED event is not pending");
}

#[test]
fn unsettled_event_breaks_promise() {
    let settles = "every consumer settles every event";
    assert_eq!(after(|day| drop(day.database.consumed.remove(0))), [settles]);
    assert_eq!(after(|day| day.database.consumed[0].record.status = ConsumeStatus::Dead), [settles]);
    let counts = [settles, "nothing is pending"];
    assert_eq!(after(|day| day.database.consumed[0].record.status = ConsumeStatus::Waiting), counts);
    let twice = after(|day| {
        let again = day.database.consumed[0].clone();
        day.database.consumed.push(again);
    });
    assert_eq!(twice, [settles]);
    let stray = after(|day| day.database.consumed[0].consumer = "unknown".to_owned());
    assert_eq!(stray, [settles]);
}

#[test]
fn missing_duplicate_or_unexplained_effect_breaks_promise_despite_consume_log() {
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

#[test]
fn copy_that_was_not_acknowledged_and_day_without_copies_break_promise() {
    let ignored = ["duplicate messages are ignored"];
    assert_eq!(after(|day| day.counts(WEBHOOK_QUEUE, COPIED).acked = 1), ignored);
    assert_eq!(after(|day| day.counts(INVENTORY_QUEUE, COPIED).acked = 2), ignored);
    let masked = after(|day| {
        day.counts(INVENTORY_QUEUE, COPIED).acked = 2;
        day.counts(WEBHOOK_QUEUE, REPUBLISHED).acked = 9;
    });
    assert_eq!(masked, ignored, "republished messages in another queue do not compensate");
    assert_eq!(
        after(|day| day.injected.message_counts.values_mut().for_each(|counts| counts.copies = 0)),
        ignored
    );
    assert!(
        after(|day| day.counts(WEBHOOK_QUEUE, COPIED).acked = 3).is_empty(),
        "a lost confirm causes more messages"
    );
}

#[test]
fn counted_attempt_or_missing_outage_breaks_promise() {
    let outage = ["an outage uses no attempts"];
    assert_eq!(after(|day| day.database.events[0].retry_count = 1), outage);
    assert_eq!(after(|day| day.database.consumed[0].record.attempts = 2), outage);
    assert_eq!(after(|day| day.injected.outage = None), outage);
    let short = after(|day| {
        let (from, until) = day.injected.outage.unwrap();
        day.injected.outage = Some((from, until - TimeDelta::milliseconds(1)));
    });
    assert_eq!(short, outage);
}

#[test]
fn dead_letter_that_is_open_missing_additional_or_misplaced_breaks_promise() {
    let dead = ["dead letters are explained"];
    assert_eq!(after(|day| day.database.dead_letters[0].status = DeadLetterStatus::Open), dead);
    assert_eq!(after(|day| day.database.dead_letters[0].status = DeadLetterStatus::Replaying), dead);
    assert_eq!(after(|day| day.database.dead_letters[0].note = None), dead);
    assert_eq!(after(|day| day.database.dead_letters.clear()), dead);
    assert_eq!(after(|day| day.database.dead_letters.push(day.database.dead_letters[0].clone())), dead);
    let open = after(|day| {
        let explained = day.database.dead_letters[0].clone();
        let key = "unexplained".to_owned();
        let open = DeadLetter { key, status: DeadLetterStatus::Open, note: None, ..explained };
        day.database.dead_letters.push(open);
    });
    assert_eq!(open, dead);
    assert_eq!(after(|day| day.database.dead_letters[0].queue = "buyer.credit.queue".to_owned()), dead);
    assert_eq!(after(|day| day.injected.corrupted = None), dead);
    assert_eq!(
        after(|day| day.counts(FULFILLMENT_QUEUE, 1).intact = 1),
        dead,
        "the event of the dead letter also arrived in an intact message"
    );
    assert!(
        after(|day| day.counts(WEBHOOK_QUEUE, 1).intact = 9).is_empty(),
        "other queues receive the intact message"
    );
    assert!(after(|day| day.database.dead_letters[0].status = DeadLetterStatus::Replayed).is_empty());
}

#[test]
fn queued_messages_and_unpaid_orders_are_pending() {
    assert_eq!(after(|day| day.queued = 1), ["nothing is pending"]);
    let broken = after(|day| {
        let row = day.row(TIMED_OUT);
        (row.status, row.cancel_reason) = (OrderStatus::Pending, None::<CancelReason>);
    });
    assert!(broken.contains(&"unpaid orders are cancelled in time"), "{broken:?}");
    assert!(broken.contains(&"nothing is pending"), "{broken:?}");
}
