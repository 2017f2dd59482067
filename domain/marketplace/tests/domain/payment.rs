//! What a report about a payment changes, in every state of the payment and its order (spec §2 "Gateway reports").

use chrono::{DateTime, Utc};
use handover_events::Trace;
use marketplace_domain::{
    Account, BilledOrder, BookedTransaction, CancelCause, Capture, EventBody, FeeRate, Invoice,
    InvoiceStatus, Money, NewInvoice, Order, OrderAction, OrderStatus, Payment, PaymentDecision,
    PaymentMethod, PaymentResult, PaymentStatus, RefundCause, ReportOutcome, ReportState, Settlement,
};
use proptest::prelude::*;

use crate::common::{amounts, at, id, money, one_of, order, payment};

const RESULTS: [PaymentResult; 2] = [PaymentResult::Success, PaymentResult::Failed];

fn now() -> DateTime<Utc> {
    at("2026-02-04T10:31:00.25Z")
}

fn report(transaction: &str, result: PaymentResult, amount: Money) -> Settlement {
    Settlement { transaction_id: transaction.into(), result, amount }
}

fn success() -> Settlement {
    report("txn-1", PaymentResult::Success, money("80.25"))
}

fn failure() -> Settlement {
    report("txn-1", PaymentResult::Failed, money("80.25"))
}

fn in_status(status: PaymentStatus) -> Payment {
    Payment { status, ..payment() }
}

fn decide(payment: &Payment, report: &Settlement, order: &Order) -> PaymentDecision {
    payment.decide(report, &order.clone().into(), 0, None, now())
}

fn only(outcome: ReportOutcome) -> PaymentDecision {
    PaymentDecision { outcome, settled: None, capture: None, refund: None, order: None, invoice: None }
}

/// The status after the decision, if it changes, and the type of the event.
fn transition(decision: &PaymentDecision) -> Option<(PaymentStatus, &'static str)> {
    decision.settled.as_ref().map(|(payment, event)| (payment.status, event.event_type().as_str()))
}

#[test]
fn first_report_settles_the_payment_and_changes_nothing_else() {
    for (report, status) in [(success(), PaymentStatus::Success), (failure(), PaymentStatus::Failed)] {
        let expected = Payment {
            status,
            transaction_id: Some("txn-1".into()),
            version: 2,
            update_time: now(),
            ..payment()
        };
        let (settled, _) = decide(&payment(), &report, &order(OrderStatus::Pending)).settled.unwrap();
        assert_eq!(settled, expected);
    }
}

#[test]
fn settlement_event_has_the_right_type_and_the_order_fields() {
    for (report, name) in [(success(), "PAYMENT_SUCCEEDED"), (failure(), "PAYMENT_FAILED")] {
        let decision = decide(&payment(), &report, &order(OrderStatus::Pending));
        let (_, event): (Payment, EventBody) = decision.settled.unwrap();
        assert_eq!(event.event_type().as_str(), name);
        assert_eq!(event.event_type().aggregate(), "Payment");
        assert_eq!(event.aggregate_id(), 600_001);
        assert_eq!(
            event.to_json(),
            concat!(
                r#"{"orderId":900001,"orderNo":"202602041030000000900001","buyerId":10001,"sellerId":10002,"#,
                r#""totalAmount":88.50,"paymentId":600001,"transactionId":"txn-1","amount":80.25,"currency":"CNY","#,
                r#""paymentMethod":"alipay","occurredTime":"2026-02-04T10:31:00.250000Z"}"#
            )
        );
    }
}

#[test]
fn payment_method_is_a_closed_set_and_other_stored_values_are_masked() {
    for name in PaymentMethod::ACCEPTED {
        assert_eq!(name.parse::<PaymentMethod>().map(|method| method.to_string()), Ok(name.to_owned()));
        assert_eq!(PaymentMethod::stored(name).as_str(), name);
    }
    assert_eq!(PaymentMethod::default().as_str(), "online");
    for raw in ["4111111111111111", "Card", " card", "", "other"] {
        let error = raw.parse::<PaymentMethod>().unwrap_err();
        assert_eq!(error.expected, PaymentMethod::ACCEPTED.join(" "), "{raw:?}");
        let stored = PaymentMethod::stored(raw);
        let shown = format!("{stored} {stored:?} {}", serde_json::to_string(&stored).unwrap());
        assert_eq!(shown, r#"other Other "other""#, "{raw:?}");
    }
    assert_eq!(PaymentMethod::PUBLISHED, [&PaymentMethod::ACCEPTED[..], &["other"]].concat()[..]);
}

#[test]
fn success_pays_a_pending_order_and_is_refunded_otherwise() {
    for before in [PaymentStatus::Processing, PaymentStatus::Failed] {
        for status in OrderStatus::ALL {
            let decision = decide(&in_status(before), &success(), &order(*status));
            let is_late = *status != OrderStatus::Pending;
            assert_eq!(transition(&decision), Some((PaymentStatus::Success, "PAYMENT_SUCCEEDED")));
            assert_eq!(decision.settled.map(|(payment, _)| payment.refund_due), Some(is_late));
            let capture = decision.capture.unwrap();
            assert_eq!((capture.number, capture.amount), (1, money("80.25")));
            assert_eq!((capture.refund_due, capture.in_suspense), (is_late, is_late), "{status}");
            let account = if is_late { Account::Suspense } else { Account::Platform };
            assert_eq!(capture.account(), account);
            assert_eq!(decision.refund, is_late.then_some(RefundCause::LatePayment));
            assert_eq!(decision.order, (!is_late).then_some(OrderAction::Pay));
            let outcome = if is_late { ReportOutcome::LatePayment } else { ReportOutcome::OrderPaid };
            assert_eq!((decision.outcome, outcome.state()), (outcome, ReportState::Done));
        }
    }
}

#[test]
fn second_transaction_of_a_successful_payment_is_captured_and_refunded() {
    let paid = in_status(PaymentStatus::Success);
    for status in OrderStatus::ALL {
        let decision = paid.decide(&success(), &order(*status).into(), 1, None, now());
        let capture = Capture {
            tenant: paid.tenant,
            of: paid.of,
            payment: paid.id,
            number: 2,
            transaction_id: "txn-1".into(),
            amount: money("80.25"),
            refund_due: true,
            in_suspense: true,
            create_time: now(),
        };
        let expected = PaymentDecision {
            capture: Some(capture),
            refund: Some(RefundCause::SecondCapture),
            ..only(ReportOutcome::SecondCapture)
        };
        assert_eq!(decision, expected, "{status}");
    }
}

#[test]
fn booked_transaction_is_recorded_and_needs_an_operator_only_if_it_differs() {
    let own = BookedTransaction { payment: payment().id, amount: money("80.25") };
    let foreign = BookedTransaction { payment: id(600_002), ..own };
    let other_amount = BookedTransaction { amount: money("1"), ..own };
    for status in PaymentStatus::ALL {
        let decide = |booked| {
            in_status(*status).decide(&success(), &order(OrderStatus::Pending).into(), 1, Some(booked), now())
        };
        assert_eq!(decide(own), only(ReportOutcome::Recorded));
        assert_eq!(decide(foreign), only(ReportOutcome::TransactionConflict));
        assert_eq!(decide(other_amount), only(ReportOutcome::TransactionConflict));
    }
    assert_eq!(ReportOutcome::TransactionConflict.state(), ReportState::Open);
    let failed = payment().decide(&failure(), &order(OrderStatus::Pending).into(), 0, Some(foreign), now());
    assert_eq!(failed, only(ReportOutcome::TransactionConflict));
}

#[test]
fn failure_changes_only_a_payment_in_processing() {
    for status in OrderStatus::ALL {
        let decide = |before| decide(&in_status(before), &failure(), &order(*status));
        let first = decide(PaymentStatus::Processing);
        assert_eq!(transition(&first), Some((PaymentStatus::Failed, "PAYMENT_FAILED")));
        assert_eq!((first.capture, first.refund, first.order), (None, None, None));
        assert_eq!(decide(PaymentStatus::Failed), only(ReportOutcome::Recorded));
        assert_eq!(decide(PaymentStatus::Success), only(ReportOutcome::PaymentFailedAfterSuccess));
    }
    assert_eq!(ReportOutcome::PaymentFailedAfterSuccess.state(), ReportState::Open);
}

#[test]
fn failure_cancels_a_pending_order_that_uses_assets() {
    for status in OrderStatus::ALL {
        let with_assets = Order { assets: crate::common::wallet_assets("8.25"), ..order(*status) };
        let cancels = *status == OrderStatus::Pending;
        let expected = cancels.then_some(OrderAction::Cancel(CancelCause::PaymentFailed));
        assert_eq!(decide(&payment(), &failure(), &with_assets).order, expected, "{status}");
    }
}

#[test]
fn success_over_amount_zero_captures_nothing() {
    let decision = decide(
        &payment(),
        &report("txn-1", PaymentResult::Success, Money::ZERO),
        &order(OrderStatus::Pending),
    );
    assert_eq!(transition(&decision), Some((PaymentStatus::Failed, "PAYMENT_FAILED")));
    assert_eq!(
        (decision.outcome, decision.capture, decision.refund),
        (ReportOutcome::WrongAmount, None, None)
    );
}

proptest! {
    #[test]
    fn success_over_another_amount_is_refunded_and_never_pays(
        minor in amounts(), before in one_of(PaymentStatus::ALL), status in one_of(OrderStatus::ALL), captures in 0..3u32,
    ) {
        prop_assume!(minor != money("80.25") && minor > Money::ZERO);
        let report = report("txn-1", PaymentResult::Success, minor);
        let decision = in_status(before).decide(&report, &order(status).into(), captures, None, now());
        let failed = (before == PaymentStatus::Processing).then_some((PaymentStatus::Failed, "PAYMENT_FAILED"));
        prop_assert_eq!(transition(&decision), failed);
        let capture = decision.capture.unwrap();
        prop_assert_eq!((capture.number, capture.amount, capture.refund_due), (captures + 1, minor, true));
        prop_assert_eq!((decision.refund, decision.order), (Some(RefundCause::WrongAmount), None));
        prop_assert_eq!(decision.outcome.state(), ReportState::Open);
    }

    #[test]
    fn order_is_paid_at_most_once_by_any_reports(
        reports in prop::collection::vec((0..3, one_of(&RESULTS), one_of(OrderStatus::ALL)), 1..20),
    ) {
        let mut payment = payment();
        let mut paid = 0;
        for (transaction, result, status) in reports {
            let report = report(&format!("txn-{transaction}"), result, money("80.25"));
            let decision = decide(&payment, &report, &order(status));
            paid += u32::from(decision.order == Some(OrderAction::Pay));
            if let Some((after, _)) = decision.settled {
                prop_assert_eq!(after.version, payment.version + 1);
                payment = after;
            }
        }
        prop_assert!(paid <= 1, "{} times", paid);
        prop_assert_ne!(payment.status, PaymentStatus::Processing);
    }
}

/// A pending invoice over the amount of the payment, in this status.
fn invoice(status: InvoiceStatus) -> Invoice {
    let trace = Trace { trace_id: "bill-1".into(), traceparent: None };
    let new = NewInvoice {
        id: id(400_001),
        tenant: id(3),
        period: "2026-02".parse().expect("a month"),
        fee_rate: FeeRate::try_from(10_000).expect("a rate"),
        trace: &trace,
        now: now(),
    };
    let billed = BilledOrder { order: id(900_001), total: money("80.25"), complete_time: now() };
    let generated = Invoice::generate(new, &[billed]).expect("an invoice");
    Invoice { status, ..generated.invoice }
}

#[test]
fn success_pays_a_pending_invoice_and_is_refunded_otherwise() {
    for before in [PaymentStatus::Processing, PaymentStatus::Failed] {
        for status in InvoiceStatus::ALL {
            let invoice = invoice(*status);
            let payment = Payment { of: invoice.id.into(), ..in_status(before) };
            let decision = payment.decide(&success(), &invoice.clone().into(), 0, None, now());
            let is_late = *status != InvoiceStatus::Pending;
            let paid =
                Invoice { status: InvoiceStatus::Paid, pay_time: Some(now()), version: 2, ..invoice.clone() };
            assert_eq!(decision.invoice, (!is_late).then_some(paid), "{status}");
            assert_eq!(
                (decision.order, decision.refund),
                (None, is_late.then_some(RefundCause::LatePayment))
            );
            let outcome = if is_late { ReportOutcome::LatePayment } else { ReportOutcome::InvoicePaid };
            assert_eq!(decision.outcome, outcome);
            let (settled, event) = decision.settled.unwrap();
            let payload: serde_json::Value = serde_json::from_str(&event.to_json()).unwrap();
            assert_eq!((&payload["invoiceId"], payload.get("orderId")), (&400_001.into(), None));
            let key = decision.capture.unwrap().operation_key(&settled);
            let expected = if is_late { "payment:600001:capture" } else { "invoice:400001:capture" };
            assert_eq!(key.as_str(), expected);
        }
    }
}

#[test]
fn failure_leaves_the_invoice_as_it_is() {
    for status in InvoiceStatus::ALL {
        let invoice = invoice(*status);
        let payment = Payment { of: invoice.id.into(), ..payment() };
        let decision = payment.decide(&failure(), &invoice.into(), 0, None, now());
        assert_eq!((decision.order, decision.invoice, decision.capture), (None, None, None));
        assert_eq!(decision.outcome, ReportOutcome::PaymentFailed);
    }
}
