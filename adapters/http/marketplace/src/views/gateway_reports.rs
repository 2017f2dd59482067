//! Reports of the payment gateway.

use handover_events::TenantId;
use handover_http::views::Time;
use handover_outbox::ports::Numbered;
use marketplace_domain::{GatewayReport, Money, OrderId, PaymentId, RefundId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::openapi::kinds;

/// A report of the payment gateway with a valid signature: its content, and what was done because of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GatewayReport)]
pub struct GatewayReportView {
    #[schema(value_type = kinds::Id)]
    report_id: i64,
    #[schema(value_type = kinds::ReportKind)]
    kind: &'static str,
    /// Null if the payment or refund is unknown; then only the role `platform` sees the report.
    #[schema(value_type = Option<kinds::Id>, required)]
    tenant_id: Option<TenantId>,
    #[schema(value_type = Option<kinds::Id>, required)]
    order_id: Option<OrderId>,
    #[schema(value_type = Option<kinds::Id>, required)]
    payment_id: Option<PaymentId>,
    #[schema(value_type = Option<kinds::Id>, required)]
    refund_id: Option<RefundId>,
    /// Number of the attempt at the refund.
    #[schema(required)]
    attempt: Option<u32>,
    /// The reference as reported.
    #[schema(value_type = Option<kinds::Reference>, required)]
    reference: Option<String>,
    /// The gateway's transaction id; masked for callers without the role `pii`.
    #[schema(required)]
    transaction_id: Option<String>,
    #[schema(value_type = Option<kinds::GatewayResult>, required)]
    result: Option<String>,
    #[schema(value_type = Option<kinds::Amount>, required)]
    amount: Option<Money>,
    /// SHA-256 of the body, in hexadecimal.
    body_hash: String,
    /// Why the body is unreadable.
    #[schema(required)]
    error: Option<String>,
    #[schema(value_type = kinds::ReportOutcome)]
    outcome: &'static str,
    #[schema(value_type = kinds::ReportState)]
    state: &'static str,
    /// Trace id of the request that delivered the report.
    trace_id: String,
    create_time: Time,
    #[schema(required)]
    closed_by: Option<String>,
    #[schema(required)]
    close_reason: Option<String>,
    #[schema(required)]
    close_time: Option<Time>,
}

impl From<Numbered<GatewayReport>> for GatewayReportView {
    fn from(Numbered { id, effect: report }: Numbered<GatewayReport>) -> GatewayReportView {
        let close_time = report.closed.as_ref().map(|closed| Time(closed.at));
        let (closed_by, close_reason) = report.closed.map(|closed| (closed.operator, closed.reason)).unzip();
        GatewayReportView {
            report_id: id,
            kind: report.kind.as_str(),
            tenant_id: report.tenant,
            order_id: report.order,
            payment_id: report.payment,
            refund_id: report.refund,
            attempt: report.attempt,
            reference: report.reference,
            transaction_id: report.transaction_id,
            result: report.result,
            amount: report.amount,
            body_hash: report.body_hash,
            error: report.error,
            outcome: report.outcome.as_str(),
            state: report.state.as_str(),
            trace_id: report.trace_id,
            create_time: Time(report.create_time),
            closed_by,
            close_reason,
            close_time,
        }
    }
}
