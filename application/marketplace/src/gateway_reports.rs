//! Records of the gateway's reports. A report is recorded in the unit of work of its effect.
//!
//! **Invariant:** a report takes effect once. A repeated report has the same key, gets the same response, and changes
//! nothing; only a report about an unknown payment or refund is evaluated again.

use chrono::{DateTime, Utc};
use handover_events::Trace;
use marketplace_domain::{
    ClosedBy, GatewayReport, InvoiceId, Money, OrderId, PayableId, Reference, ReportKind, ReportOutcome,
    ReportState,
};
use sha2::{Digest, Sha256};
use tracing::{error, info};

use crate::context::CommandContext;
use crate::ports::Work;
use handover_outbox::ports::{Numbered, StoreError};

/// How a report names its payment or refund: by reference, by id, or by both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedName<I> {
    pub reference: Option<Reference>,
    pub id: Option<I>,
}

impl<I> From<I> for ReportedName<I> {
    fn from(id: I) -> ReportedName<I> {
        ReportedName { reference: None, id: Some(id) }
    }
}

/// The content of a report, for its record.
#[derive(Debug, Clone)]
pub(crate) struct ReportContent {
    pub(crate) kind: ReportKind,
    pub(crate) reference: Option<Reference>,
    pub(crate) transaction_id: Option<String>,
    pub(crate) result: Option<&'static str>,
    pub(crate) amount: Option<Money>,
    /// SHA-256 of the body, in hexadecimal.
    pub(crate) body_hash: String,
    /// Trace id of the request.
    pub(crate) trace_id: String,
    pub(crate) at: DateTime<Utc>,
}

impl ReportContent {
    /// The key of a report about a known payment or refund and its attempt.
    pub(crate) fn key(&self, id: i64, attempt: u32) -> String {
        self.hashed(&["found", &id.to_string(), &attempt.to_string()])
    }

    /// The key of a report whose payment or refund is unknown.
    pub(crate) fn key_of_unknown(&self, id: Option<i64>) -> String {
        let id = id.map(|id| id.to_string()).unwrap_or_default();
        let reference = self.reference.map(|reference| reference.to_string()).unwrap_or_default();
        self.hashed(&["unknown", &id, &reference])
    }

    fn hashed(&self, subject: &[&str]) -> String {
        let amount = self.amount.map(|amount| amount.to_string()).unwrap_or_default();
        let transaction = self.transaction_id.as_deref().unwrap_or_default();
        let content = [self.kind.as_str(), transaction, self.result.unwrap_or_default(), &amount];
        hash(subject.iter().chain(&content).copied())
    }

    /// A record without a payment or refund.
    pub(crate) fn record(&self, key: String, outcome: ReportOutcome) -> GatewayReport {
        GatewayReport {
            key,
            kind: self.kind,
            tenant: None,
            of: None,
            payment: None,
            refund: None,
            attempt: None,
            reference: self.reference.map(|reference| reference.to_string()),
            transaction_id: self.transaction_id.clone(),
            result: self.result.map(str::to_owned),
            amount: self.amount,
            body_hash: self.body_hash.clone(),
            error: None,
            outcome,
            answer: None,
            state: outcome.state(),
            trace_id: self.trace_id.clone(),
            create_time: self.at,
            closed: None,
        }
    }
}

/// A record of a body that is not a valid report.
pub(crate) fn unreadable(
    context: &CommandContext,
    kind: ReportKind,
    body_hash: String,
    error: String,
    at: DateTime<Utc>,
) -> GatewayReport {
    let outcome = ReportOutcome::Unreadable;
    let key = hash([outcome.as_str(), kind.as_str(), &body_hash]);
    let trace_id = context.trace.trace_id.clone();
    let content = ReportContent {
        kind,
        reference: None,
        transaction_id: None,
        result: None,
        amount: None,
        body_hash,
        trace_id,
        at,
    };
    GatewayReport { error: Some(error), ..content.record(key, outcome) }
}

/// Hash of several texts. Their lengths are part of it, so that texts cannot move from one to the next.
fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Records a report about an unknown payment or refund, once. Returns the new record.
pub(crate) async fn record_unknown(
    unit: &mut Work,
    content: &ReportContent,
    id: Option<i64>,
    outcome: ReportOutcome,
) -> Result<Option<GatewayReport>, StoreError> {
    let key = content.key_of_unknown(id);
    if unit.gateway_report_by_key(&key).await?.is_some() {
        return Ok(None);
    }
    let report = content.record(key, outcome);
    unit.insert_gateway_report(&report).await?;
    Ok(Some(report))
}

/// Closes the record of an earlier delivery of this report, whose payment or refund was unknown then.
pub(crate) async fn close_unknown(
    unit: &mut Work,
    content: &ReportContent,
    id: Option<i64>,
) -> Result<(), StoreError> {
    let earlier = unit.gateway_report_by_key(&content.key_of_unknown(id)).await?;
    if let Some(Numbered { id, effect: GatewayReport { state: ReportState::Open, .. } }) = earlier {
        let reason = format!("the {} was found when the gateway repeated the report", content.kind);
        let closed = ClosedBy { operator: "system:gateway".to_owned(), reason, at: content.at };
        unit.close_gateway_report(id, &closed).await?.or_conflict("gateway report")?;
    }
    Ok(())
}

/// Logs a recorded report; one that an operator must look at as an alert. `trace` is the trace of the payment or refund.
pub(crate) fn log_report(report: &GatewayReport, trace: Option<&Trace>) {
    let trace_id = trace.map_or(report.trace_id.as_str(), |trace| trace.trace_id.as_str());
    let payment = report.payment.map(|id| id.get());
    let refund = report.refund.map(|id| id.get());
    let order = report.of.and_then(PayableId::order).map(OrderId::get);
    let invoice = report.of.and_then(PayableId::invoice).map(InvoiceId::get);
    let kind = report.kind.as_str();
    let outcome = report.outcome.as_str();
    let reported_in = report.trace_id.as_str();
    if report.outcome.needs_operator() {
        error!(
            code = "gateway.report.needs-decision",
            kind,
            outcome,
            paymentId = payment,
            refundId = refund,
            orderId = order,
            invoiceId = invoice,
            reference = report.reference,
            result = report.result,
            error = report.error,
            bodyHash = report.body_hash,
            traceId = trace_id,
            reportTraceId = reported_in,
            "[Gateway] [ALERT] report needs a decision; see `handover payment reports --state open`"
        );
    } else {
        info!(
            code = "gateway.report.recorded",
            kind,
            outcome,
            paymentId = payment,
            refundId = refund,
            orderId = order,
            invoiceId = invoice,
            traceId = trace_id,
            reportTraceId = reported_in,
            "[Gateway] report recorded"
        );
    }
}
