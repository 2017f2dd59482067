//! Each violation breaks the promises that cover it.

#![allow(clippy::wildcard_enum_match_arm, reason = "the small day uses only some of the event types")]

mod assets;
mod effects;
mod events;
mod orders;
mod small_day;

use chrono::TimeDelta;
use handover_outbox::ports::{DeadLetter, DeadLetterStatus, DeliveryState};
use marketplace::consumers::{FULFILLMENT_QUEUE, INVENTORY_QUEUE, WEBHOOK_QUEUE};
use marketplace_domain::{CancelReason, InvoiceStatus, OrderStatus};

use small_day::{COPIED, REPUBLISHED, SmallDay, TIMED_OUT};

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
    // Sum of the events: 11 x (created, timeout), 7 paid, 2 x (shipped, completed), 1 shipped, 4 cancelled, 1 refunded,
    // 9 payments, 3 refunds, 2 invoices with 2 payments and 1 refund.
    assert_eq!(of("no change without its event"), same("56 events"));
    // Sum of the effects: 11 + 4 + 1 listing changes, 7 shipments, 5 x 2 notifications, 2 + 2 + 1 credit changes, 3 x 2
    // + 3 x 3 + 2 asset operations on holds, 7 + 1 operations on earned points.
    assert_eq!(of("each effect exactly once"), same("63 effects"));
    assert_eq!(of("the ledger sums to zero"), same("0.00 in money, 0 points"));
    assert_eq!(of("every hold is resolved"), same("8 of 8"));
    assert_eq!(of("holds match their orders"), same("8 holds"));
    assert_eq!(of("no coupon is used twice"), ("3 coupons".to_owned(), "1 used, 2 left".to_owned()));
    // Sum of the points: 88 for each of 5 orders of 88.50, and 77 for an order of 88.50 that uses a coupon of 5.00,
    // 5.00 of the wallet and 100 points.
    assert_eq!(of("earned points match payments"), same("517 points"));
    assert_eq!(of("refunds equal captured amounts"), same("77.50 refunded, 1 order"));
    assert_eq!(of("money that pays no order is refunded"), same("1 of 1"));
    assert_eq!(of("invoices are paid and refunded once"), same("1 paid, 1 refunded"));
    assert_eq!(of("one buyer gets the lamp"), same("1 of 64 buyers, 63 refused"));
    assert_eq!(of("a product is sold once"), same("6 sold, 5 on sale"));
    assert_eq!(of("dead letters are explained"), same("1, 1 explained"));
    let ignored = "3 ignored, and 1 republished".to_owned();
    assert_eq!(of("duplicate messages are ignored"), ("3 copies".to_owned(), ignored));
    let states = "4 cancelled, 2 completed, 3 paid, 1 refunded, 1 shipped".to_owned();
    assert_eq!(of("order states match the responses"), ("11 as acknowledged".to_owned(), states));
}

#[test]
fn invoice_that_is_not_paid_once_breaks_promise() {
    let invoices = ["invoices are paid and refunded once"];
    assert_eq!(after(|day| day.database.invoices[0].invoice.status = InvoiceStatus::Pending), invoices);
    assert_eq!(after(|day| day.database.invoices[1].operations.truncate(1)), invoices);
    let without_event = "no change without its event";
    let twice = after(|day| {
        let money = &mut day.database.invoices[0].money;
        money.payments.push(money.payments[0].clone());
    });
    assert_eq!(twice, [invoices[0]]);
    let lost = after(|day| day.database.events.retain(|event| event.event_type != "INVOICE_GENERATED"));
    assert_eq!(lost, [without_event]);
    let unpaid = after(|day| drop(day.database.invoices.pop()));
    assert_eq!(unpaid, invoices);
}

#[test]
fn unexpected_response_breaks_promise() {
    assert_eq!(
        after(|day| day.clients.unexpected.push("ship: 500 B0001".to_owned())),
        ["every response is expected"]
    );
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
    assert_eq!(masked, ignored, "republished messages in another queue do not replace a copy");
    assert_eq!(
        after(|day| day.injected.message_counts.values_mut().for_each(|counts| counts.copies = 0)),
        ignored
    );
    assert!(
        after(|day| day.counts(WEBHOOK_QUEUE, COPIED).acked = 3).is_empty(),
        "more messages than copies are correct: the relay republishes after a lost confirm"
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
        "the event of the dead letter also arrived in an uncorrupted message"
    );
    assert!(
        after(|day| day.counts(WEBHOOK_QUEUE, 1).intact = 9).is_empty(),
        "other queues receive the uncorrupted message"
    );
    assert!(after(|day| day.database.dead_letters[0].status = DeadLetterStatus::Replayed).is_empty());
}

#[test]
fn missing_undelivered_or_unsigned_webhook_breaks_promise() {
    let webhooks = ["webhooks reach a receiver that fails"];
    assert_eq!(after(|day| drop(day.webhooks.accepted.pop_first())), webhooks);
    assert_eq!(after(|day| day.database.webhooks[0].state = DeliveryState::Dead), webhooks);
    assert_eq!(after(|day| drop(day.database.webhooks.pop())), webhooks);
    assert_eq!(after(|day| day.webhooks.unverified = 1), webhooks);
    assert_eq!(after(|day| day.webhooks.refused = 0), webhooks, "nothing went wrong at the receiver");
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
