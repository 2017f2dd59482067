//! Use case: the gateway reports the result of a refund.

use marketplace_domain::{
    Capture, GatewayReport, InvoiceId, OrderActor, OrderId, Payable, Refund, RefundDecision, RefundId,
    RefundReport, RefundResult, RefundStatus, ReportKind, ReportOutcome,
};
use tracing::error;

use super::settle_payment::payable_of;
use super::{Payments, RefundCommandRefusal, UseCaseError, transition};
use crate::cash::{self, CapturedMoney};
use crate::context::CommandContext;
use crate::event_types::append;
use crate::events::EventFactory;
use crate::gateway_reports::{self, ReportContent, ReportedName, log_report};
use crate::ports::Work;
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::with_tx;

/// Maximum number of events of a refund report: of the refund, of its order, and of another refund of the same money.
pub(super) const MAX_EVENTS: usize = 3;

/// A report with a valid signature of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleRefund {
    pub refund: ReportedName<RefundId>,
    pub result: RefundResult,
    /// The gateway's transaction id of the refund, if it reports one.
    pub transaction_id: Option<String>,
    /// SHA-256 of the body, in hexadecimal.
    pub body_hash: String,
}

impl Payments {
    /// Records the report and applies it in one unit of work. A successful refund also changes its
    /// order or invoice if the refunded money paid it. After a failed refund, it keeps its status and an alert is logged. What is
    /// uncertain is left to an operator. Returns the refund with the status at the first report; a repeated report changes
    /// nothing.
    ///
    /// # Errors
    /// [`UseCaseError::NotFound`]: no refund has this reference or id, or they belong to different refunds. The report is
    /// recorded.
    pub async fn settle_refund(
        &self,
        context: &CommandContext,
        command: SettleRefund,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let event_factory = self.events.factory(context, MAX_EVENTS);
        let content = content_of(&command, context, &event_factory);
        let (refund, recorded) =
            with_tx(&self.tx, (command, content, event_factory), move |unit, input, _| {
                let (SettleRefund { refund: name, result, transaction_id, .. }, content, event_factory) =
                    input;
                Box::pin(async move {
                    let (refund, attempt) = match find(unit, *name, content).await? {
                        Ok(found) => found,
                        Err(outcome) => {
                            let id = name.id.map(RefundId::get);
                            let recorded =
                                gateway_reports::record_unknown(unit, content, id, outcome).await?;
                            return Ok((None, recorded));
                        }
                    };
                    let key = content.key(refund.id.get(), attempt);
                    if let Some(earlier) = unit.gateway_report_by_key(&key).await? {
                        let answer = earlier.effect.answer.and_then(|status| status.parse().ok());
                        return Ok((
                            Some(Refund { status: answer.unwrap_or(refund.status), ..refund }),
                            None,
                        ));
                    }
                    let RefundRows { payable, capture, others } = rows_of(unit, &refund).await?;
                    let report =
                        RefundReport { attempt, result: *result, transaction_id: transaction_id.clone() };
                    let decision = refund.decide(&report, &payable, &capture, &others, event_factory.now);
                    let outcome = decision.outcome;
                    let settled =
                        apply(unit, &refund, &payable, decision, OrderActor::Gateway, event_factory).await?;
                    gateway_reports::close_unknown(unit, content, name.id.map(RefundId::get)).await?;
                    let record = GatewayReport {
                        tenant: Some(refund.tenant),
                        of: Some(refund.of),
                        payment: Some(refund.payment),
                        refund: Some(refund.id),
                        attempt: Some(attempt),
                        answer: Some(settled.status.as_str().to_owned()),
                        ..content.record(key, outcome)
                    };
                    unit.insert_gateway_report(&record).await?;
                    Ok::<_, UseCaseError<RefundCommandRefusal>>((Some(settled), Some(record)))
                })
            })
            .await?;
        if let Some(report) = &recorded {
            log_report(report, refund.as_ref().and_then(|refund| refund.trace.as_ref()));
            if let (Some(refund), ReportOutcome::RefundFailed) = (&refund, report.outcome) {
                let order = refund.of.order().map(OrderId::get);
                let invoice = refund.of.invoice().map(InvoiceId::get);
                error!(code = "refund.failed", refundId = %refund.id, orderId = order, invoiceId = invoice, amount = %refund.amount, "[Refund] [ALERT] refund \
                failed; the amount was not paid back, an operator can retry the refund or settle it by hand");
            }
        }
        refund.ok_or(UseCaseError::NotFound { what: "refund" })
    }
}

fn content_of(
    command: &SettleRefund,
    context: &CommandContext,
    event_factory: &EventFactory,
) -> ReportContent {
    ReportContent {
        kind: ReportKind::Refund,
        reference: command.refund.reference,
        transaction_id: command.transaction_id.clone(),
        result: Some(name_of(command.result)),
        amount: None,
        body_hash: command.body_hash.clone(),
        trace_id: context.trace.trace_id.clone(),
        at: event_factory.now,
    }
}

const fn name_of(result: RefundResult) -> &'static str {
    match result {
        RefundResult::Success => "SUCCESS",
        RefundResult::Failed => "FAILED",
    }
}

/// Finds the refund that a report names, and the number of its attempt.
async fn find(
    unit: &mut Work,
    name: ReportedName<RefundId>,
    content: &ReportContent,
) -> Result<Result<(Refund, u32), ReportOutcome>, StoreError> {
    let attempt = match name.reference {
        Some(reference) => {
            let found = unit.attempt_by_reference(reference).await?;
            found.map(|(id, attempt)| (id, Some(attempt)))
        }
        None => name.id.map(|id| (id, None)),
    };
    let Some((id, attempt)) = attempt else { return Ok(Err(ReportOutcome::NotFound)) };
    if name.id.is_some_and(|named| named != id) {
        return Ok(Err(ReportOutcome::Mismatch));
    }
    Ok(match unit.refund_by_id(id).await? {
        Some(refund) => {
            let attempt = match attempt {
                Some(attempt) => attempt,
                None => attempt_of_transaction(unit, content, &refund).await?,
            };
            Ok((refund, attempt))
        }
        None => Err(ReportOutcome::NotFound),
    })
}

/// The attempt that a report without a reference is about: an earlier one if its transaction was reported for that one, because
/// the gateway may repeat a report after a retry, and otherwise the current one.
async fn attempt_of_transaction(
    unit: &mut Work,
    content: &ReportContent,
    refund: &Refund,
) -> Result<u32, StoreError> {
    if content.transaction_id.is_none() {
        return Ok(refund.attempt);
    }
    for attempt in (1..refund.attempt).rev() {
        for result in [RefundResult::Success, RefundResult::Failed] {
            let earlier = ReportContent { result: Some(name_of(result)), ..content.clone() };
            if unit.gateway_report_by_key(&earlier.key(refund.id.get(), attempt)).await?.is_some() {
                return Ok(attempt);
            }
        }
    }
    Ok(refund.attempt)
}

/// The rows that a decision about a refund depends on.
pub(super) struct RefundRows {
    pub(super) payable: Payable,
    /// The money that the refund returns.
    pub(super) capture: Capture,
    /// The other refunds of the same capture.
    pub(super) others: Vec<Refund>,
}

/// Reads the rows that a decision about a refund depends on.
pub(super) async fn rows_of<R>(unit: &mut Work, refund: &Refund) -> Result<RefundRows, UseCaseError<R>> {
    let payable = payable_of(unit, refund.tenant, refund.of).await?;
    let CapturedMoney { captures, refunds: mut others, .. } = CapturedMoney::read(unit, &payable).await?;
    let capture = captures
        .into_iter()
        .find(|capture| capture.is_refunded_by(refund))
        .ok_or(UseCaseError::NotFound { what: "payment" })?;
    others.retain(|other| other.id != refund.id && capture.is_refunded_by(other));
    Ok(RefundRows { payable, capture, others })
}

/// Applies a decision in a unit of work. All events, including those of the order, have the trace of the request that
/// started the refund, not the trace of the report.
pub(super) async fn apply(
    unit: &mut Work,
    refund: &Refund,
    payable: &Payable,
    decision: RefundDecision,
    actor: OrderActor,
    event_factory: &EventFactory,
) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
    let RefundDecision { settled, booked_on, capture, order: action, invoice, stopped, .. } = decision;
    // The other refund is written first, because only one refund of the same money may not have failed.
    if let Some((other, event)) = stopped {
        let event_factory = event_factory.in_trace(other.trace.as_ref());
        unit.advance_refund(&other).await?.or_conflict("refund")?;
        append(unit.outbox(), event_factory.rows_of_payable(2, payable, other.version, &[event])).await?;
    }
    let event_factory = &event_factory.in_trace(refund.trace.as_ref());
    let Some((settled, event)) = settled else { return Ok(refund.clone()) };
    unit.advance_refund(&settled).await?.or_conflict("refund")?;
    append(unit.outbox(), event_factory.rows_of_payable(0, payable, settled.version, &[event])).await?;
    if let Some(account) = booked_on {
        let postings = if settled.status == RefundStatus::Success {
            cash::paid_out(&settled, settled.payouts, account, payable, event_factory)
        } else {
            cash::reversed(&settled, settled.payouts, account, payable, event_factory)
        };
        unit.post(&postings).await?;
    }
    if let Some(capture) = capture
        && unit.update_capture(&capture).await? == Changed::None
    {
        unit.insert_capture(&capture).await?;
    }
    if let (Some(action), Payable::Order(order)) = (action, payable) {
        transition::apply(unit, order, &action, actor, event_factory, 1).await?;
    }
    if let Some(invoice) = invoice {
        unit.advance_invoice(&invoice).await?.or_conflict("invoice")?;
    }
    Ok(settled)
}
