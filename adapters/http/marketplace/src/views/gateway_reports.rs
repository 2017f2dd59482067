//! Reports of the payment gateway.

use handover_events::TenantId;
use handover_http::views;
use handover_http::views::{Listed, Time};
use handover_outbox::ports::Numbered;
use marketplace_domain::{GatewayReport, InvoiceId, Money, OrderId, PayableId, PaymentId, RefundId};

use crate::openapi::kinds;

views! {
    /// A report of the payment gateway with a valid signature: its content, and what was done because of it.
    pub GatewayReportView as GatewayReport {
        report_id: i64 = kinds::Id,
        kind: &'static str = kinds::ReportKind,
        /// Null if the payment or refund is unknown; then only the role `platform` sees the report.
        tenant_id: Option<TenantId>,
        order_id: Option<OrderId>,
        invoice_id: Option<InvoiceId>,
        payment_id: Option<PaymentId>,
        refund_id: Option<RefundId>,
        /// Number of the attempt at the refund.
        attempt: Option<u32>,
        /// The reference as reported.
        reference: Option<String> = Option<kinds::Reference>,
        /// The gateway's transaction id; masked for callers without the role `pii`.
        transaction_id: Option<String>,
        result: Option<String> = Option<kinds::GatewayResult>,
        amount: Option<Money>,
        /// SHA-256 of the body, in hexadecimal.
        body_hash: String,
        /// Why the body is unreadable.
        error: Option<String>,
        outcome: &'static str = kinds::ReportOutcome,
        state: &'static str = kinds::ReportState,
        /// Trace id of the request that delivered the report.
        trace_id: String,
        create_time: Time,
        closed_by: Option<String>,
        close_reason: Option<String>,
        close_time: Option<Time>,
    }
}

impl Listed for GatewayReportView {
    const COLUMNS: &'static [&'static str] = &[
        "reportId",
        "createTime",
        "kind",
        "outcome",
        "state",
        "orderId",
        "invoiceId",
        "paymentId",
        "refundId",
        "transactionId",
        "result",
        "amount",
        "error",
    ];
}

impl From<Numbered<GatewayReport>> for GatewayReportView {
    fn from(Numbered { id, effect: report }: Numbered<GatewayReport>) -> GatewayReportView {
        let close_time = report.closed.as_ref().map(|closed| Time(closed.at));
        let (closed_by, close_reason) = report.closed.map(|closed| (closed.operator, closed.reason)).unzip();
        GatewayReportView {
            report_id: id,
            kind: report.kind.as_str(),
            tenant_id: report.tenant,
            order_id: report.of.and_then(PayableId::order),
            invoice_id: report.of.and_then(PayableId::invoice),
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
