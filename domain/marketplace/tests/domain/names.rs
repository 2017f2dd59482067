//! Names of enum values in rows and messages.

use handover_events::{ConsumeStatus, OutboxStatus, UnknownName};
use marketplace_domain::{
    Account, AggregateType, Asset, CancelReason, CouponStatus, EventKind, FindingKind, FindingState,
    HoldStatus, InvoiceStatus, OperationKind, OrderActor, OrderStatus, PaymentStatus, ProductStatus, Purse,
    RefundCause, RefundStatus, ReportKind, ReportOutcome, ReportState,
};

/// Asserts that an enum has exactly these names, for parsing and formatting.
macro_rules! names_are {
    ($enum:ty, $names:expr) => {{
        let names: &[&str] = &$names;
        let all: Vec<&str> = <$enum>::ALL.iter().map(|value| value.as_str()).collect();
        assert_eq!(all, names, "{}", stringify!($enum));
        for value in <$enum>::ALL {
            assert_eq!(value.to_string(), value.as_str());
            assert_eq!(value.as_str().parse::<$enum>(), Ok(*value));
        }
        let swapped_case = |name: &str| {
            let upper = name.to_uppercase();
            if upper == name { name.to_lowercase() } else { upper }
        };
        for name in names.iter().flat_map(|name| [swapped_case(name), format!("{name} "), format!(" {name}")])
        {
            let expected = Box::leak(names.join(" ").into_boxed_str());
            assert_eq!(name.parse::<$enum>(), Err(UnknownName { expected }), "{name:?}");
        }
        assert!("".parse::<$enum>().is_err());
    }};
}

/// Asserts the same as `names_are`, and that JSON uses the same names.
macro_rules! names_in_json_too {
    ($enum:ty, $names:expr) => {{
        names_are!($enum, $names);
        for value in <$enum>::ALL {
            let json = format!("{:?}", value.as_str());
            assert_eq!(serde_json::to_string(value).unwrap(), json);
            assert_eq!(serde_json::from_str::<$enum>(&json).unwrap(), *value);
        }
    }};
}

#[test]
fn names_of_orders_and_events_are_frozen_and_round_trip() {
    names_in_json_too!(OrderStatus, ["pending", "paid", "shipped", "completed", "cancelled", "refunded"]);
    names_in_json_too!(CancelReason, ["buyer", "seller", "timeout", "asset_lock_failed", "payment_failed"]);
    names_are!(InvoiceStatus, ["pending", "paid", "refunded"]);
    names_in_json_too!(ProductStatus, ["on_sale", "sold", "off_shelf"]);
    names_in_json_too!(PaymentStatus, ["PROCESSING", "SUCCESS", "FAILED"]);
    names_in_json_too!(RefundStatus, ["PROCESSING", "SUCCESS", "FAILED"]);
    names_in_json_too!(OutboxStatus, ["NEW", "RETRY", "SENT", "FAILED"]);
    names_in_json_too!(ConsumeStatus, ["PROCESSING", "WAITING", "SUCCESS", "FAILED", "DEAD"]);
    names_in_json_too!(AggregateType, ["Order", "Payment", "Refund", "Invoice"]);
    names_in_json_too!(
        EventKind,
        [
            "ORDER_CREATED",
            "ORDER_PAID",
            "ORDER_STATUS_CHANGED",
            "ORDER_TIMEOUT",
            "ORDER_CANCELLED",
            "ORDER_REFUNDED",
            "PAYMENT_SUCCEEDED",
            "PAYMENT_FAILED",
            "REFUND_SUCCEEDED",
            "REFUND_FAILED",
            "INVOICE_GENERATED",
        ]
    );
    names_are!(OrderActor, ["gateway", "buyer", "seller", "system", "operator", "stranger"]);
    names_are!(
        RefundCause,
        ["buyer", "seller", "operator", "late_payment", "second_capture", "wrong_amount"]
    );
}

#[test]
fn names_of_gateway_reports_are_frozen_and_round_trip() {
    names_are!(ReportKind, ["payment", "refund"]);
    names_are!(ReportState, ["DONE", "OPEN", "CLOSED"]);
    names_are!(
        ReportOutcome,
        [
            "recorded",
            "order_paid",
            "invoice_paid",
            "payment_failed",
            "late_payment",
            "second_capture",
            "wrong_amount",
            "transaction_conflict",
            "payment_failed_after_success",
            "refunded",
            "refunded_after_shipping",
            "refunded_twice",
            "refund_failed",
            "refund_failed_after_success",
            "settled_by_operator",
            "not_found",
            "mismatch",
            "unreadable"
        ]
    );
}

#[test]
fn names_of_findings_are_frozen_and_round_trip() {
    names_are!(FindingState, ["OPEN", "ACKNOWLEDGED", "REPAIRED", "RESOLVED"]);
    names_are!(
        FindingKind,
        [
            "missingEvent",
            "notConfirmed",
            "notConsumed",
            "missingEffect",
            "unknownEvent",
            "unreadableRow",
            "doubledEffect",
            "effectWithoutFact",
            "missingHold",
            "notBooked",
            "unbalanced",
            "drifted",
            "productNotSold",
            "soldTwice",
            "soldWithoutOrder",
            "paidWithoutPayment",
            "paymentFailed",
            "paymentNotApplied",
            "refundNotApplied",
            "notRefunded",
            "gatewayReport",
            "notReported",
            "missingDelivery",
            "invoiceDiffers",
        ]
    );
}

#[test]
fn names_of_assets_are_frozen_and_round_trip() {
    names_are!(Asset, ["coupon", "wallet", "points", "cash"]);
    names_are!(Purse, ["wallet", "points"]);
    names_are!(CouponStatus, ["AVAILABLE", "LOCKED", "USED", "EXPIRED"]);
    names_are!(HoldStatus, ["FROZEN", "COMMITTED", "RELEASED"]);
    names_are!(
        OperationKind,
        [
            "DEPOSIT", "GRANT", "ISSUE", "FREEZE", "COMMIT", "RELEASE", "REVERT", "EARN", "UNEARN",
            "CAPTURE", "PAYOUT"
        ]
    );
    names_are!(
        Account,
        [
            "wallet",
            "wallet_hold",
            "points",
            "points_hold",
            "points_debt",
            "platform",
            "suspense",
            "gateway",
            "points_issued"
        ]
    );
}
