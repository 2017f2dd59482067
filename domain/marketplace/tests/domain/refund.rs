//! What a report about a refund changes, in every state of the refund and its order (spec §2 "Gateway reports"), and what
//! an operator can do.

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{
    Account, Capture, Currency, Order, OrderAction, OrderActor, OrderId, OrderRefusal, OrderStatus,
    ProductAction, Refund, RefundCause, RefundDecision, RefundRefusal, RefundReport, RefundResult,
    RefundStatus, ReportOutcome, ReportState, SupersededAttempt,
};

use crate::common::{FACTS, at, id, money, order, payment, placed_at, reference, refund_of_buyer, shipment};

fn now() -> DateTime<Utc> {
    at("2026-02-04T11:00:00.5Z")
}

/// The money that paid the order.
fn capture() -> Capture {
    Capture {
        tenant: id(3),
        of: id::<OrderId>(900_001).into(),
        payment: id(600_001),
        number: 1,
        transaction_id: "txn-1".into(),
        amount: money("80.25"),
        refund_due: false,
        in_suspense: false,
        create_time: placed_at(),
    }
}

/// Money that buys nothing.
fn open_capture() -> Capture {
    Capture { refund_due: true, in_suspense: true, ..capture() }
}

fn refund() -> Refund {
    let name = (id(500_001), reference(1));
    Refund::of(&payment(), &capture(), name, RefundCause::Buyer, "too small".into(), placed_at())
}

fn in_status(status: RefundStatus) -> Refund {
    let succeeded = status == RefundStatus::Success;
    Refund {
        status,
        settled_attempt: succeeded.then_some(1),
        payouts: u32::from(succeeded),
        transaction_id: succeeded.then(|| "back-1".to_owned()),
        next_attempt_time: (status == RefundStatus::Processing).then(placed_at),
        ..refund()
    }
}

fn report(result: RefundResult) -> RefundReport {
    RefundReport { attempt: 1, result, transaction_id: Some("back-1".into()) }
}

fn only(outcome: ReportOutcome) -> RefundDecision {
    RefundDecision {
        outcome,
        settled: None,
        booked_on: None,
        capture: None,
        order: None,
        invoice: None,
        stopped: None,
    }
}

/// A paid order whose refund is in progress, or an order in another status.
fn refunding(status: OrderStatus) -> Order {
    let refund = (status == OrderStatus::Paid).then(|| id(500_001));
    Order { refund, ..order(status) }
}

fn decide(refund: &Refund, result: RefundResult, order: &Order, capture: &Capture) -> RefundDecision {
    refund.decide(&report(result), &order.clone().into(), capture, &[], now())
}

fn status_after(decision: &RefundDecision) -> Option<RefundStatus> {
    decision.settled.as_ref().map(|(refund, _)| refund.status)
}

#[test]
fn new_refund_covers_its_capture_and_is_due_immediately() {
    let expected = Refund {
        id: id(500_001),
        tenant: id(3),
        of: id::<OrderId>(900_001).into(),
        payment: id(600_001),
        capture: 1,
        reference: Some(reference(1)),
        is_keyed_by_id: false,
        attempt: 1,
        amount: money("80.25"),
        currency: Currency::CNY,
        cause: RefundCause::Buyer,
        off_shelf: false,
        reason: "too small".into(),
        status: RefundStatus::Processing,
        settled_attempt: None,
        transaction_id: None,
        payouts: 0,
        is_excess: false,
        settled_by: None,
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
fn key_towards_the_gateway_is_the_reference_unless_an_earlier_version_may_have_sent_the_refund() {
    assert_eq!(refund().gateway_key(), reference(1).to_string());
    let by_id = Refund { is_keyed_by_id: true, ..refund() };
    assert_eq!(by_id.gateway_key(), "refund:500001");
    assert_eq!(Refund { reference: None, ..refund() }.gateway_key(), "refund:500001");
}

#[test]
fn first_report_settles_the_refund_and_changes_nothing_else() {
    for (result, status) in
        [(RefundResult::Success, RefundStatus::Success), (RefundResult::Failed, RefundStatus::Failed)]
    {
        let succeeded = status == RefundStatus::Success;
        let expected = Refund {
            status,
            settled_attempt: succeeded.then_some(1),
            transaction_id: Some("back-1".into()),
            payouts: u32::from(succeeded),
            next_attempt_time: None,
            version: 2,
            update_time: now(),
            ..refund()
        };
        let decision = decide(&refund(), result, &refunding(OrderStatus::Paid), &capture());
        assert_eq!(decision.settled.unwrap().0, expected);
    }
}

#[test]
fn settlement_event_has_the_right_type_and_the_order_fields() {
    let named = [(RefundResult::Success, "REFUND_SUCCEEDED"), (RefundResult::Failed, "REFUND_FAILED")];
    for (result, name) in named {
        let decision = decide(&refund(), result, &refunding(OrderStatus::Paid), &capture());
        let (_, event) = decision.settled.unwrap();
        assert_eq!(event.event_type().as_str(), name);
        assert_eq!(event.event_type().aggregate(), "Refund");
        assert_eq!(event.aggregate_id(), 500_001);
        let own = r#""refundId":500001,"amount":80.25,"currency":"CNY","occurredTime":"2026-02-04T11:00:00.500000Z""#;
        assert_eq!(event.to_json(), format!("{{{FACTS},{own}}}"));
    }
}

#[test]
fn success_refunds_a_paid_order_from_the_account_of_its_money() {
    for before in [RefundStatus::Processing, RefundStatus::Failed] {
        // A refund that had failed is not the refund of its order any more.
        for order in [refunding(OrderStatus::Paid), order(OrderStatus::Paid)] {
            let decision = decide(&in_status(before), RefundResult::Success, &order, &capture());
            assert_eq!(status_after(&decision), Some(RefundStatus::Success));
            assert_eq!(
                (decision.outcome, decision.booked_on),
                (ReportOutcome::Refunded, Some(Account::Platform))
            );
            let action = refund_of_buyer();
            assert_eq!(decision.order.as_ref(), Some(&action));
            let (after, _) = order.apply(&action, OrderActor::Gateway, now()).unwrap();
            assert_eq!((after.status, after.refund), (OrderStatus::Refunded, Some(id(500_001))));
        }
    }
}

#[test]
fn success_after_shipping_is_booked_and_needs_an_operator() {
    for status in [OrderStatus::Shipped, OrderStatus::Completed] {
        let decision =
            decide(&in_status(RefundStatus::Failed), RefundResult::Success, &order(status), &capture());
        assert_eq!(status_after(&decision), Some(RefundStatus::Success));
        assert_eq!((decision.booked_on, decision.order), (Some(Account::Platform), None));
        assert_eq!(decision.outcome, ReportOutcome::RefundedAfterShipping);
        assert_eq!(decision.outcome.state(), ReportState::Open);
    }
}

#[test]
fn success_of_money_that_buys_nothing_changes_no_order() {
    for status in OrderStatus::ALL {
        for before in [RefundStatus::Processing, RefundStatus::Failed] {
            let decision =
                decide(&in_status(before), RefundResult::Success, &order(*status), &open_capture());
            assert_eq!((decision.outcome, decision.order), (ReportOutcome::Refunded, None), "{status}");
            assert_eq!(decision.booked_on, Some(Account::Suspense));
        }
    }
}

#[test]
fn second_success_needs_an_operator_only_if_the_money_may_have_been_returned_twice() {
    let done = in_status(RefundStatus::Success);
    let order = order(OrderStatus::Refunded);
    let decide = |report: &RefundReport| done.decide(report, &order.clone().into(), &capture(), &[], now());
    let same = report(RefundResult::Success);
    assert_eq!(decide(&same), only(ReportOutcome::Recorded));
    assert_eq!(decide(&RefundReport { transaction_id: None, ..same.clone() }), only(ReportOutcome::Recorded));
    let other = RefundReport { transaction_id: Some("back-2".into()), ..same.clone() };
    assert_eq!(decide(&other), only(ReportOutcome::RefundedTwice));
    assert_eq!(decide(&RefundReport { attempt: 2, ..same }), only(ReportOutcome::RefundedTwice));
    assert_eq!(ReportOutcome::RefundedTwice.state(), ReportState::Open);
}

#[test]
fn late_success_of_another_refund_of_the_same_money_is_an_excess() {
    let other = Refund { id: id(500_002), ..in_status(RefundStatus::Success) };
    let failed = in_status(RefundStatus::Failed);
    let order = order(OrderStatus::Refunded);
    let decision =
        failed.decide(&report(RefundResult::Success), &order.clone().into(), &capture(), &[other], now());
    let (after, _) = decision.settled.unwrap();
    assert_eq!((after.status, after.is_excess, after.payouts), (RefundStatus::Success, true, 1));
    assert_eq!((decision.booked_on, decision.order), (Some(Account::Suspense), None));
    assert_eq!(decision.outcome, ReportOutcome::RefundedTwice);
}

#[test]
fn success_while_only_an_excess_refund_has_returned_the_money_needs_an_operator() {
    let other = Refund { id: id(500_002), is_excess: true, ..in_status(RefundStatus::Success) };
    let reversed = Refund { payouts: 1, ..in_status(RefundStatus::Failed) };
    let order = order(OrderStatus::Refunded).into();
    let report = report(RefundResult::Success);
    let decision = reversed.decide(&report, &order, &open_capture(), &[other], now());
    let (after, _) = decision.settled.unwrap();
    assert_eq!((after.status, after.is_excess, after.payouts), (RefundStatus::Success, false, 2));
    assert_eq!((decision.booked_on, decision.order), (Some(Account::Suspense), None));
    assert_eq!(decision.outcome, ReportOutcome::RefundedTwice);
}

#[test]
fn attempt_may_lack_a_report_if_it_was_sent_and_another_attempt_returned_the_money() {
    let sent = Refund { attempts: 1, ..in_status(RefundStatus::Failed) };
    assert!(!sent.may_lack_report(), "the gateway reported the failure");
    assert!(Refund { payouts: 1, ..sent.clone() }.may_lack_report());
    assert!(Refund { is_excess: true, ..sent.clone() }.may_lack_report());
    assert!(!Refund { is_excess: true, attempts: 0, ..sent.clone() }.may_lack_report());
    for status in [RefundStatus::Processing, RefundStatus::Success] {
        assert!(!Refund { is_excess: true, status, ..sent.clone() }.may_lack_report());
    }
}

#[test]
fn late_success_stops_another_refund_of_the_same_money() {
    for (attempts, outcome) in [(0, ReportOutcome::Refunded), (1, ReportOutcome::RefundedTwice)] {
        let running = Refund { id: id(500_002), attempts, ..refund() };
        let order = Order { refund: Some(running.id), ..order(OrderStatus::Paid) };
        let failed = in_status(RefundStatus::Failed);
        let decision = failed.decide(
            &report(RefundResult::Success),
            &order.clone().into(),
            &capture(),
            &[running],
            now(),
        );
        assert_eq!(decision.outcome, outcome);
        let (stopped, event) = decision.stopped.unwrap();
        assert_eq!((stopped.status, stopped.is_excess), (RefundStatus::Failed, true));
        assert_eq!((stopped.next_attempt_time, stopped.may_lack_report()), (None, attempts > 0));
        assert_eq!(event.event_type().as_str(), "REFUND_FAILED");
        assert_eq!(decision.order, Some(refund_of_buyer()));
    }
}

/// The seller asked for the refund that is stopped, and the buyer for the one that succeeds late.
#[test]
fn late_success_takes_the_product_off_the_shelf_if_a_refund_of_the_same_money_does() {
    for (own, of_stopped, expected) in [(false, true, true), (true, false, true), (false, false, false)] {
        let running = Refund { id: id(500_002), off_shelf: of_stopped, ..refund() };
        let order = Order { refund: Some(running.id), ..order(OrderStatus::Paid) };
        let failed = Refund { off_shelf: own, ..in_status(RefundStatus::Failed) };
        let success = report(RefundResult::Success);
        let decision = failed.decide(&success, &order.into(), &capture(), &[running], now());
        let expected_action = if expected { ProductAction::Withdraw } else { ProductAction::Release };
        assert_eq!(decision.order.unwrap().product_action(), Some(expected_action));
        // The repair of an order that was not changed reads it from the refund.
        assert_eq!(decision.settled.unwrap().0.off_shelf, expected);
    }
}

#[test]
fn failure_of_the_current_attempt_leaves_the_order_paid() {
    let decision = decide(&refund(), RefundResult::Failed, &refunding(OrderStatus::Paid), &capture());
    assert_eq!((status_after(&decision), decision.booked_on), (Some(RefundStatus::Failed), None));
    assert_eq!(decision.outcome, ReportOutcome::RefundFailed);
    assert_eq!(decision.order, Some(OrderAction::AbandonRefund { refund: id(500_001) }));
    let late = decide(&refund(), RefundResult::Failed, &order(OrderStatus::Cancelled), &open_capture());
    assert_eq!(late.order, None);
}

#[test]
fn failure_of_a_refund_that_was_sent_again_after_its_reversal_leaves_the_order_refunded() {
    let retried = Refund { attempt: 2, payouts: 1, ..refund() };
    let order = Order { refund: Some(retried.id), ..order(OrderStatus::Refunded) };
    let report = RefundReport { attempt: 2, ..report(RefundResult::Failed) };
    let decision = retried.decide(&report, &order.into(), &open_capture(), &[], now());
    assert_eq!((status_after(&decision), decision.booked_on), (Some(RefundStatus::Failed), None));
    assert_eq!((decision.outcome, decision.order), (ReportOutcome::RefundFailed, None));
}

#[test]
fn failure_of_another_attempt_or_after_a_failure_is_only_recorded() {
    let order = refunding(OrderStatus::Paid);
    let failed = in_status(RefundStatus::Failed);
    assert_eq!(decide(&failed, RefundResult::Failed, &order, &capture()), only(ReportOutcome::Recorded));
    for refund in [
        Refund { attempt: 2, ..refund() },
        Refund { attempt: 2, settled_attempt: Some(2), ..in_status(RefundStatus::Success) },
    ] {
        assert_eq!(decide(&refund, RefundResult::Failed, &order, &capture()), only(ReportOutcome::Recorded));
    }
}

#[test]
fn success_of_an_earlier_attempt_settles_the_refund_and_may_have_returned_the_money_twice() {
    for (attempts, outcome) in [(0, ReportOutcome::Refunded), (1, ReportOutcome::RefundedTwice)] {
        let retried = Refund { attempt: 2, attempts, ..refund() };
        let decision = decide(&retried, RefundResult::Success, &refunding(OrderStatus::Paid), &capture());
        let (after, _) = decision.settled.unwrap();
        assert_eq!((after.settled_attempt, after.next_attempt_time), (Some(1), None));
        assert_eq!(decision.outcome, outcome);
    }
}

#[test]
fn failure_after_success_brings_the_money_back_and_leaves_the_order_refunded() {
    let done = in_status(RefundStatus::Success);
    let decision = decide(&done, RefundResult::Failed, &order(OrderStatus::Refunded), &capture());
    let (after, event) = decision.settled.unwrap();
    assert_eq!((after.status, after.payouts, after.settled_attempt), (RefundStatus::Failed, 1, None));
    assert_eq!(event.event_type().as_str(), "REFUND_FAILED");
    assert_eq!((decision.booked_on, decision.order), (Some(Account::Suspense), None));
    assert_eq!(decision.capture, Some(open_capture()));
    assert_eq!(decision.outcome, ReportOutcome::RefundFailedAfterSuccess);
    assert_eq!(decision.outcome.state(), ReportState::Open);
    // The buyer of a shipped order has the goods, so the money pays for them again.
    let shipped = decide(&done, RefundResult::Failed, &order(OrderStatus::Shipped), &capture());
    assert_eq!((shipped.booked_on, shipped.capture), (Some(Account::Platform), None));
}

#[test]
fn retry_after_a_failure_is_a_new_attempt_with_its_own_reference() {
    let by_id = Refund { is_keyed_by_id: true, attempts: 4, ..in_status(RefundStatus::Failed) };
    let failed = Refund { last_error: Some("account closed".into()), ..by_id };
    let (after, replaced) = failed.retry(reference(2), &capture(), &[], now()).unwrap();
    let expected = Refund {
        status: RefundStatus::Processing,
        reference: Some(reference(2)),
        is_keyed_by_id: false,
        attempt: 2,
        attempts: 0,
        next_attempt_time: Some(now()),
        last_error: None,
        version: 2,
        update_time: now(),
        ..failed
    };
    assert_eq!(after, expected);
    assert_eq!(
        replaced,
        Some(SupersededAttempt { refund: id(500_001), attempt: 1, reference: reference(1) })
    );
}

#[test]
fn retry_of_a_running_refund_only_makes_it_due() {
    let waiting = Refund { next_attempt_time: Some(now() + TimeDelta::hours(1)), attempts: 9, ..refund() };
    let (after, replaced) = waiting.retry(reference(2), &capture(), &[], now()).unwrap();
    let expected = Refund { next_attempt_time: Some(now()), version: 2, update_time: now(), ..waiting };
    assert_eq!((after, replaced), (expected, None));
}

#[test]
fn money_that_was_returned_can_be_neither_sent_again_nor_settled_by_hand() {
    let done = in_status(RefundStatus::Success);
    let refused = RefundRefusal::AlreadySettled { status: RefundStatus::Success };
    assert_eq!(done.retry(reference(2), &capture(), &[], now()), Err(refused.clone()));
    let order = order(OrderStatus::Refunded);
    let settle = |refund: &Refund, others: &[Refund]| {
        refund.settle_by_hand("op".into(), &order.clone().into(), &capture(), others, now())
    };
    assert_eq!(settle(&done, &[]), Err(refused));
    let failed = in_status(RefundStatus::Failed);
    for status in [RefundStatus::Success, RefundStatus::Processing] {
        for is_excess in [false, true] {
            let others = [Refund { id: id(500_002), is_excess, ..in_status(status) }];
            let refused = RefundRefusal::AlreadyRefunded { other: id(500_002) };
            assert_eq!(failed.retry(reference(2), &capture(), &others, now()), Err(refused.clone()));
            assert_eq!(settle(&failed, &others), Err(refused));
        }
    }
}

#[test]
fn refund_settled_by_hand_succeeds_and_later_reports_need_an_operator() {
    for before in [RefundStatus::Processing, RefundStatus::Failed] {
        let refund = in_status(before);
        let order = refunding(OrderStatus::Paid);
        let decision =
            refund.settle_by_hand("ann".into(), &order.clone().into(), &capture(), &[], now()).unwrap();
        let (after, event) = decision.settled.unwrap();
        assert_eq!((after.status, after.settled_by.as_deref()), (RefundStatus::Success, Some("ann")));
        assert_eq!(event.event_type().as_str(), "REFUND_SUCCEEDED");
        assert_eq!(decision.booked_on, Some(Account::Platform));
        assert!(matches!(decision.order, Some(OrderAction::Refund { .. })));
        for result in [RefundResult::Success, RefundResult::Failed] {
            let later = decide(&after, result, &order, &capture());
            assert_eq!(later, only(ReportOutcome::SettledByOperator));
        }
    }
    assert_eq!(ReportOutcome::SettledByOperator.state(), ReportState::Open);
}

#[test]
fn refund_is_requested_again_only_while_it_is_not_settled() {
    let next = now() + TimeDelta::minutes(1);
    let expected =
        Refund { attempts: 1, next_attempt_time: Some(next), version: 2, update_time: now(), ..refund() };
    assert_eq!(refund().with_attempt(next, now()), expected);
    for status in [RefundStatus::Success, RefundStatus::Failed] {
        let after = in_status(status).with_attempt(next, now());
        assert_eq!((after.status, after.next_attempt_time), (status, None));
    }
    let often = Refund { attempts: u32::MAX, ..refund() };
    assert_eq!(often.with_attempt(next, now()).attempts, u32::MAX);
}

#[test]
fn interrupted_request_is_due_at_once_and_counts_only_as_the_first() {
    let next = now() + TimeDelta::seconds(10);
    for (sent, counted) in [(1, 1), (2, 1), (5, 4)] {
        let waiting = Refund { attempts: sent, next_attempt_time: Some(next), ..refund() };
        let expected = Refund {
            attempts: counted,
            next_attempt_time: Some(now()),
            version: waiting.version + 1,
            update_time: now(),
            ..waiting.clone()
        };
        assert_eq!(waiting.with_interrupted_request(now()), expected);
    }
    let settled = in_status(RefundStatus::Success).with_interrupted_request(now());
    assert_eq!(settled.next_attempt_time, None);
}

#[test]
fn refund_of_the_seller_may_take_the_product_off_the_shelf() {
    let kept = Refund { cause: RefundCause::Seller, ..refund() };
    let withdrawn = kept.taking_off_shelf(now()).unwrap();
    assert_eq!(withdrawn, Refund { off_shelf: true, version: 2, update_time: now(), ..kept.clone() });
    assert_eq!(withdrawn.taking_off_shelf(now()), None);
    for (refund, product_action) in [(kept, ProductAction::Release), (withdrawn, ProductAction::Withdraw)] {
        // A later success of a refund that failed has the same effect.
        for before in [RefundStatus::Processing, RefundStatus::Failed] {
            let refund = Refund { status: before, ..refund.clone() };
            let decision = decide(&refund, RefundResult::Success, &refunding(OrderStatus::Paid), &capture());
            let action = decision.order.unwrap();
            assert!(action.is_decline());
            assert_eq!(action.product_action(), Some(product_action));
        }
    }
}

#[test]
fn causes_of_refunds_requested_for_the_order_and_by_its_parties() {
    let with = |is: fn(RefundCause) -> bool| -> Vec<&str> {
        RefundCause::ALL.iter().filter(|cause| is(**cause)).map(|cause| cause.as_str()).collect()
    };
    assert_eq!(with(RefundCause::is_requested), ["buyer", "seller", "operator"]);
    assert_eq!(with(RefundCause::is_of_party), ["buyer", "seller"]);
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
fn failure_of_another_refund_does_not_end_the_refund_of_the_order() {
    let begin = OrderAction::BeginRefund { refund: id(500_001) };
    let paid = order(OrderStatus::Paid);
    let (refunding, _) = paid.apply(&begin, OrderActor::Buyer, now()).unwrap();
    for (order, other) in [(&refunding, 500_002), (&paid, 500_001)] {
        let ended = OrderAction::AbandonRefund { refund: id(other) };
        let refusal = order.apply(&ended, OrderActor::Gateway, now());
        let status = OrderStatus::Paid;
        assert_eq!(refusal, Err(OrderRefusal::WrongStatus { status, action: "refund" }));
    }
}
