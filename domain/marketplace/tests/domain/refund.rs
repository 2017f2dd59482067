//! A refund covers its whole payment, is settled once, and is requested again only while it is not settled.

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{
    Currency, OrderAction, OrderActor, OrderRefusal, OrderStatus, Refund, RefundCause, RefundRefusal,
    RefundResult, RefundStatus,
};

use crate::common::{FACTS, at, id, money, order, payment, placed_at, shipment};

const RESULTS: [RefundResult; 2] = [RefundResult::Success, RefundResult::Failed];

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00.5Z")
}

fn refund() -> Refund {
    Refund::of(&payment(), id(500_001), RefundCause::Buyer, "too small".into(), placed_at())
}

fn ends_as(result: RefundResult) -> RefundStatus {
    match result {
        RefundResult::Success => RefundStatus::Success,
        RefundResult::Failed => RefundStatus::Failed,
    }
}

fn settled(result: RefundResult) -> Refund {
    refund().settle(result, &order(OrderStatus::Paid), now()).unwrap().unwrap().0
}

#[test]
fn new_refund_covers_its_payment_and_is_due_immediately() {
    let expected = Refund {
        id: id(500_001),
        tenant: id(3),
        order: id(900_001),
        payment: id(600_001),
        amount: money("80.25"),
        currency: Currency::CNY,
        cause: RefundCause::Buyer,
        reason: "too small".into(),
        status: RefundStatus::Processing,
        attempts: 0,
        next_attempt_time: Some(placed_at()),
        last_error: None,
        trace: payment().trace,
        version: 1,
        create_time: placed_at(),
        update_time: placed_at(),
    };
    assert_eq!(refund(), expected);
}

#[test]
fn first_report_settles_the_refund_and_changes_nothing_else() {
    for result in RESULTS {
        let status = ends_as(result);
        let update_time = now();
        let expected = Refund { status, next_attempt_time: None, version: 2, update_time, ..refund() };
        assert_eq!(settled(result), expected);
    }
}

#[test]
fn settlement_event_has_the_right_type_and_the_order_fields() {
    let named = [(RefundResult::Success, "REFUND_SUCCEEDED"), (RefundResult::Failed, "REFUND_FAILED")];
    for (result, name) in named {
        let (_, event) = refund().settle(result, &order(OrderStatus::Paid), now()).unwrap().unwrap();
        assert_eq!(event.event_type().as_str(), name);
        assert_eq!(event.event_type().aggregate().as_str(), "Refund");
        assert_eq!(event.aggregate_id(), 500_001);
        let own = r#""refundId":500001,"amount":80.25,"currency":"CNY","occurredTime":"2026-02-04T11:00:00.500000Z""#;
        assert_eq!(event.to_json(), format!("{{{FACTS},{own}}}"));
    }
}

#[test]
fn repeated_report_changes_nothing_and_the_other_result_is_rejected() {
    for result in RESULTS {
        for status in OrderStatus::ALL {
            for again in RESULTS {
                let outcome = settled(result).settle(again, &order(*status), now());
                let refusal = RefundRefusal::AlreadySettled { status: ends_as(result) };
                let expected = if again == result { Ok(None) } else { Err(refusal) };
                assert_eq!(outcome, expected, "{result:?}, then {again:?}");
            }
        }
    }
    let refusal =
        settled(RefundResult::Failed).settle(RefundResult::Success, &order(OrderStatus::Paid), now());
    assert_eq!(refusal.unwrap_err().to_string(), "the refund is already FAILED");
}

#[test]
fn refund_is_requested_again_only_while_it_is_not_settled() {
    let next = now() + TimeDelta::minutes(1);
    let expected =
        Refund { attempts: 1, next_attempt_time: Some(next), version: 2, update_time: now(), ..refund() };
    assert_eq!(refund().with_attempt(next, now()), expected);
    for result in RESULTS {
        let after = settled(result).with_attempt(next, now());
        assert_eq!((after.status, after.next_attempt_time), (ends_as(result), None));
    }
    let often = Refund { attempts: u32::MAX, ..refund() };
    assert_eq!(often.with_attempt(next, now()).attempts, u32::MAX);
}

#[test]
fn error_of_a_request_is_recorded() {
    let expected = Refund { last_error: Some("timeout".into()), version: 2, update_time: now(), ..refund() };
    assert_eq!(refund().with_error("timeout".into(), now()), expected);
}

#[test]
fn order_with_running_refund_can_neither_be_shipped_nor_refunded() {
    let begin = |refund| OrderAction::BeginRefund { refund: id(refund) };
    let paid = order(OrderStatus::Paid);
    let (refunding, _) = paid.apply(&begin(500_001), OrderActor::Buyer, now()).unwrap();
    assert_eq!((paid.running_refund(), refunding.running_refund()), (None, Some(id(500_001))));
    let ship = OrderAction::Ship(shipment());
    let refusal = refunding.apply(&ship, OrderActor::Seller, now()).unwrap_err();
    assert_eq!(refusal, OrderRefusal::Refunding { action: "ship" });
    assert_eq!(refusal.to_string(), "cannot ship an order while its refund is being processed");
    for again in [500_001, 500_002] {
        let refusal = refunding.apply(&begin(again), OrderActor::Operator, now());
        assert_eq!(refusal, Err(OrderRefusal::Refunding { action: "refund" }));
    }
    // After the refund failed, the order can be shipped or refunded again.
    let failed = OrderAction::AbandonRefund { refund: id(500_001) };
    let (paid_again, _) = refunding.apply(&failed, OrderActor::Gateway, now()).unwrap();
    assert!(paid_again.apply(&ship, OrderActor::Seller, now()).is_ok());
    assert!(paid_again.apply(&begin(500_002), OrderActor::Operator, now()).is_ok());
}

#[test]
fn order_accepts_only_the_result_of_its_own_refund() {
    let begin = OrderAction::BeginRefund { refund: id(500_001) };
    let paid = order(OrderStatus::Paid);
    let (refunding, _) = paid.apply(&begin, OrderActor::Buyer, now()).unwrap();
    for (order, other) in [(&refunding, 500_002), (&paid, 500_001)] {
        let succeeded = OrderAction::Refund { refund: id(other), amount: money("80.25") };
        for ended in [succeeded, OrderAction::AbandonRefund { refund: id(other) }] {
            let refusal = order.apply(&ended, OrderActor::Gateway, now());
            let status = OrderStatus::Paid;
            assert_eq!(refusal, Err(OrderRefusal::WrongStatus { status, action: "refund" }));
        }
    }
}
