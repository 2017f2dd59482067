//! A payment is settled once, and only by a report with its exact amount; a success that arrives too late is marked for
//! refund.

use chrono::{DateTime, Utc};
use marketplace_domain::{
    Money, OrderStatus, Payment, PaymentRefusal, PaymentResult, PaymentStatus, Settlement,
};
use proptest::prelude::*;

use crate::common::{amounts, at, money, one_of, order, payment};

const RESULTS: [PaymentResult; 2] = [PaymentResult::Success, PaymentResult::Failed];

fn now() -> DateTime<Utc> {
    at("2026-02-04T10:31:00.25Z")
}

fn report(transaction: &str, result: PaymentResult, amount: Money) -> Settlement {
    Settlement { transaction_id: transaction.into(), result, amount }
}

fn ends_as(result: PaymentResult) -> PaymentStatus {
    match result {
        PaymentResult::Success => PaymentStatus::Success,
        PaymentResult::Failed => PaymentStatus::Failed,
    }
}

fn settled(result: PaymentResult) -> Payment {
    let report = report("txn-1", result, money("80.25"));
    let (settled, _) = payment().settle(&report, &order(OrderStatus::Pending), now()).unwrap().unwrap();
    settled
}

#[test]
fn first_report_settles_the_payment_and_changes_nothing_else() {
    for result in RESULTS {
        let expected = Payment {
            status: ends_as(result),
            transaction_id: Some("txn-1".into()),
            version: 2,
            update_time: now(),
            ..payment()
        };
        assert_eq!(settled(result), expected);
    }
}

#[test]
fn settlement_event_has_the_right_type_and_the_order_fields() {
    let named = [(PaymentResult::Success, "PAYMENT_SUCCEEDED"), (PaymentResult::Failed, "PAYMENT_FAILED")];
    for (result, name) in named {
        let report = report("txn-1", result, money("80.25"));
        let (_, event) = payment().settle(&report, &order(OrderStatus::Pending), now()).unwrap().unwrap();
        assert_eq!(event.event_type().as_str(), name);
        assert_eq!(event.event_type().aggregate().as_str(), "Payment");
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
fn repeated_report_changes_nothing() {
    for result in RESULTS {
        for status in OrderStatus::ALL {
            let again = report("txn-1", result, money("80.25"));
            assert_eq!(
                settled(result).settle(&again, &order(*status), now()),
                Ok(None),
                "{result:?}, {status}"
            );
        }
    }
}

#[test]
fn different_report_about_a_settled_payment_is_rejected() {
    let other = |result| match result {
        PaymentResult::Success => PaymentResult::Failed,
        PaymentResult::Failed => PaymentResult::Success,
    };
    for result in RESULTS {
        let refusal = Err(PaymentRefusal::AlreadySettled { status: ends_as(result) });
        for contradiction in [
            report("txn-2", result, money("80.25")),
            report("txn-1", other(result), money("80.25")),
            report("txn-2", other(result), money("80.25")),
            // A transaction id is compared byte by byte.
            report("TXN-1", result, money("80.25")),
        ] {
            let outcome = settled(result).settle(&contradiction, &order(OrderStatus::Pending), now());
            assert_eq!(outcome, refusal, "{contradiction:?}");
        }
    }
}

#[test]
fn success_for_an_order_that_is_not_pending_requires_a_refund() {
    for status in OrderStatus::ALL {
        let report = report("txn-1", PaymentResult::Success, money("80.25"));
        let (after, event) = payment().settle(&report, &order(*status), now()).unwrap().unwrap();
        assert_eq!(after.status, PaymentStatus::Success);
        assert_eq!(after.refund_due, *status != OrderStatus::Pending, "{status}");
        assert_eq!(event.event_type().as_str(), "PAYMENT_SUCCEEDED");
    }
}

#[test]
fn failure_requires_no_refund() {
    for status in OrderStatus::ALL {
        let report = report("txn-1", PaymentResult::Failed, money("80.25"));
        let (after, _) = payment().settle(&report, &order(*status), now()).unwrap().unwrap();
        assert!(!after.refund_due, "{status}");
    }
}

#[test]
fn wrong_amount_error_names_both_amounts() {
    let refusal = payment()
        .settle(&report("txn-1", PaymentResult::Success, money("88.5")), &order(OrderStatus::Pending), now())
        .unwrap_err();
    assert_eq!(refusal.to_string(), "the reported amount is 88.50, but the payment amount is 80.25");
}

proptest! {
    #[test]
    fn report_with_another_amount_is_rejected_before_and_after_settlement(
        reported in amounts(), result in one_of(&RESULTS), status in one_of(OrderStatus::ALL),
    ) {
        prop_assume!(reported != money("80.25"));
        let refusal = Err(PaymentRefusal::WrongAmount { reported, expected: money("80.25") });
        let report = report("txn-1", result, reported);
        prop_assert_eq!(payment().settle(&report, &order(status), now()), refusal.clone());
        prop_assert_eq!(settled(result).settle(&report, &order(status), now()), refusal);
    }

    #[test]
    fn payment_is_settled_exactly_once_by_any_reports(
        reports in prop::collection::vec((0..3, one_of(&RESULTS), one_of(OrderStatus::ALL)), 1..20),
    ) {
        let mut payment = payment();
        let mut events = 0;
        for (transaction, result, status) in reports {
            let report = report(&format!("txn-{transaction}"), result, money("80.25"));
            if let Ok(Some((after, _))) = payment.settle(&report, &order(status), now()) {
                events += 1;
                payment = after;
            }
        }
        prop_assert_eq!(events, 1);
        prop_assert_eq!(payment.version, 2);
        prop_assert_ne!(payment.status, PaymentStatus::Processing);
    }
}
