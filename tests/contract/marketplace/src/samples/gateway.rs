//! References, captures and reports of the payment gateway.

use handover_contract::samples::{later, start};
use handover_events::TenantId;
use marketplace_domain::{
    Capture, ClosedBy, GatewayReport, Reference, ReportKind, ReportOutcome, ReportState,
};

use super::{money, order_id, payment_id};

/// The reference with this number.
pub fn reference(number: i64) -> Reference {
    let high = number >> 48;
    let low = number & 0xffff_ffff_ffff;
    format!("00000000-{high:04x}-4000-8000-{low:012x}").parse().expect("a valid UUID")
}

/// A capture of tenant 1 that pays its order. Its order id is the same number as its payment id.
pub fn capture(payment: i64, number: u32) -> Capture {
    Capture {
        tenant: TenantId::DEFAULT,
        of: order_id(payment).into(),
        payment: payment_id(payment),
        number,
        transaction_id: format!("t-{payment}-{number}"),
        amount: money(8_850),
        refund_due: false,
        in_suspense: false,
        create_time: start(),
    }
}

/// A report with this key about the payment of an order of tenant 1, which paid the order. The payment id is the same
/// number as the order id.
pub fn gateway_report(key: &str, order: i64) -> GatewayReport {
    GatewayReport {
        key: key.into(),
        kind: ReportKind::Payment,
        tenant: Some(TenantId::DEFAULT),
        of: Some(order_id(order).into()),
        payment: Some(payment_id(order)),
        refund: None,
        attempt: None,
        reference: Some(reference(order).to_string()),
        transaction_id: Some(format!("t-{order}-1")),
        result: Some("SUCCESS".into()),
        amount: Some(money(8_850)),
        body_hash: "0a".repeat(32),
        error: None,
        outcome: ReportOutcome::OrderPaid,
        answer: Some("SUCCESS".into()),
        state: ReportState::Done,
        trace_id: "trace-1".into(),
        create_time: start(),
        closed: None,
    }
}

/// A report of which an operator must decide: a second result of the payment of an order.
pub fn open_report(key: &str, order: i64) -> GatewayReport {
    GatewayReport {
        result: Some("FAILED".into()),
        outcome: ReportOutcome::PaymentFailedAfterSuccess,
        state: ReportState::Open,
        ..gateway_report(key, order)
    }
}

/// A report that names no known payment.
pub fn report_of_nothing(key: &str) -> GatewayReport {
    GatewayReport {
        tenant: None,
        of: None,
        payment: None,
        outcome: ReportOutcome::NotFound,
        answer: None,
        state: ReportState::Open,
        ..gateway_report(key, 1)
    }
}

/// The decision of an operator to close a report.
pub fn closed_by(operator: &str) -> ClosedBy {
    ClosedBy { operator: operator.into(), reason: "checked with the gateway".into(), at: later(60) }
}
