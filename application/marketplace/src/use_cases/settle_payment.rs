//! Use case: the gateway reports the result of a payment.

use marketplace_domain::{
    Asset, BookedTransaction, Capture, GatewayReport, HoldStatus, Order, OrderAction, OrderActor,
    OrderStatus, Payable, PayableId, Payment, PaymentDecision, PaymentId, PaymentResult, PaymentStatus,
    Reference, Refund, RefundCause, RefundId, ReportKind, ReportOutcome, Settlement,
};

use super::{PaymentCommandRefusal, Payments, UseCaseError, transition};
use crate::cash;
use crate::context::CommandContext;
use crate::event_types::append;
use crate::events::EventFactory;
use crate::gateway_reports::{self, ReportContent, ReportedName, log_report};
use crate::ids::{require_unused, with_unused_ids};
use crate::ports::{IdKind, Work};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_outbox::with_tx;

/// A report with a valid signature of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlePayment {
    pub payment: ReportedName<PaymentId>,
    pub report: Settlement,
    /// SHA-256 of the body, in hexadecimal.
    pub body_hash: String,
}

impl Payments {
    /// Records the report and applies it in one unit of work: captured money pays the order or invoice if it
    /// is pending, and is refunded otherwise. A failed payment cancels a pending order that uses assets, and the cancellation
    /// releases them. What is uncertain is left to an operator. Returns the payment with the status at the first report;
    /// a repeated report changes nothing.
    ///
    /// # Errors
    /// - [`PaymentCommandRefusal::AssetsNotLocked`] while an asset of the order is not locked: nothing is changed or recorded,
    ///   and the gateway repeats its report.
    /// - [`UseCaseError::NotFound`]: no payment has this reference or id, or they belong to different payments. The report is
    ///   recorded.
    pub async fn settle(
        &self,
        context: &CommandContext,
        command: SettlePayment,
    ) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
        with_unused_ids(&self.ids, || async {
            let event_factory = self.events.factory(context, 2);
            let refund: RefundId = self.ids.next(IdKind::Refund).await?;
            let refund = (refund, self.ids.reference());
            let content = content_of(&command, context, &event_factory);
            let (payment, recorded) =
                with_tx(&self.tx, (command.clone(), content, event_factory), move |unit, input, _| {
                    let (SettlePayment { payment: name, report, .. }, content, event_factory) = input;
                    Box::pin(async move {
                        let payment = match find(unit, *name).await? {
                            Ok(payment) => payment,
                            Err(outcome) => {
                                let id = name.id.map(PaymentId::get);
                                let recorded =
                                    gateway_reports::record_unknown(unit, content, id, outcome).await?;
                                return Ok((None, recorded));
                            }
                        };
                        let key = content.key(payment.id.get(), 1);
                        if let Some(earlier) = unit.gateway_report_by_key(&key).await? {
                            let answer = earlier.effect.answer.and_then(|status| status.parse().ok());
                            return Ok((
                                Some(Payment { status: answer.unwrap_or(payment.status), ..payment }),
                                None,
                            ));
                        }
                        let payable = payable_of(unit, payment.tenant, payment.of).await?;
                        if let (Some(order), PaymentStatus::Processing | PaymentStatus::Failed) =
                            (payable.order(), payment.status)
                        {
                            require_locked_assets(unit, order).await?;
                        }
                        let captures = captures(unit, &payment).await?;
                        let booked = booked(unit, &report.transaction_id, &payment).await?;
                        let decision = payment.decide(report, &payable, captures, booked, event_factory.now);
                        let outcome = decision.outcome;
                        let settling =
                            SettlementContext { actor: OrderActor::Gateway, event_factory, refund };
                        let settled = apply(unit, &payment, &payable, decision, settling).await?;
                        gateway_reports::close_unknown(unit, content, name.id.map(PaymentId::get)).await?;
                        let record = GatewayReport {
                            tenant: Some(payment.tenant),
                            of: Some(payment.of),
                            payment: Some(payment.id),
                            attempt: Some(1),
                            answer: Some(settled.status.as_str().to_owned()),
                            ..content.record(key, outcome)
                        };
                        unit.insert_gateway_report(&record).await?;
                        Ok::<_, UseCaseError<PaymentCommandRefusal>>((Some(settled), Some(record)))
                    })
                })
                .await?;
            if let Some(report) = &recorded {
                log_report(report, payment.as_ref().and_then(|payment| payment.trace.as_ref()));
            }
            payment.ok_or(UseCaseError::NotFound { what: "payment" })
        })
        .await
    }
}

fn content_of(
    command: &SettlePayment,
    context: &CommandContext,
    event_factory: &EventFactory,
) -> ReportContent {
    let Settlement { transaction_id, result, amount } = &command.report;
    ReportContent {
        kind: ReportKind::Payment,
        reference: command.payment.reference,
        transaction_id: Some(transaction_id.clone()),
        result: Some(match result {
            PaymentResult::Success => "SUCCESS",
            PaymentResult::Failed => "FAILED",
        }),
        amount: Some(*amount),
        body_hash: command.body_hash.clone(),
        trace_id: context.trace.trace_id.clone(),
        at: event_factory.now,
    }
}

/// Finds the payment that a report names.
async fn find(
    unit: &mut Work,
    name: ReportedName<PaymentId>,
) -> Result<Result<Payment, ReportOutcome>, StoreError> {
    let found = match (name.reference, name.id) {
        (Some(reference), _) => unit.payment_by_reference(reference).await?,
        (None, Some(id)) => unit.payment_by_id(id).await?,
        (None, None) => None,
    };
    Ok(match found {
        Some(payment) if name.id.is_some_and(|id| id != payment.id) => Err(ReportOutcome::Mismatch),
        Some(payment) => Ok(payment),
        None => Err(ReportOutcome::NotFound),
    })
}

/// Number of captures of a payment. A payment in `PROCESSING` has none.
async fn captures(unit: &mut Work, payment: &Payment) -> Result<u32, StoreError> {
    if payment.status == PaymentStatus::Processing {
        return Ok(0);
    }
    let captures = cash::captures_of_payment(unit, payment).await?;
    Ok(captures.iter().map(|capture| capture.number).max().unwrap_or(0))
}

/// The payment that this gateway transaction is booked for already.
async fn booked(
    unit: &mut Work,
    transaction_id: &str,
    payment: &Payment,
) -> Result<Option<BookedTransaction>, StoreError> {
    if let Some(Capture { payment, amount, .. }) = unit.capture_by_transaction(transaction_id).await? {
        return Ok(Some(BookedTransaction { payment, amount }));
    }
    let settled = unit.payment_by_transaction(transaction_id).await?;
    // A failed payment has captured nothing, so the same transaction may succeed later.
    let is_booked = |settled: &Payment| settled.id != payment.id || settled.status == PaymentStatus::Success;
    Ok(settled.filter(is_booked).map(|it| BookedTransaction { payment: it.id, amount: it.amount }))
}

/// Actor and ids for settling a payment.
#[derive(Clone, Copy)]
pub(super) struct SettlementContext<'a> {
    pub(super) actor: OrderActor,
    pub(super) event_factory: &'a EventFactory,
    /// Id and reference of the refund, if one is due.
    pub(super) refund: (RefundId, Reference),
}

/// Reads the order or invoice of a payment or refund.
pub(super) async fn payable_of<R>(
    unit: &mut Work,
    tenant: TenantId,
    id: PayableId,
) -> Result<Payable, UseCaseError<R>> {
    cash::payable(unit, tenant, id).await?.ok_or(UseCaseError::NotFound { what: id.kind() })
}

/// Requires that every asset of a pending order is locked before a payment is accepted.
pub(super) async fn require_locked_assets(
    unit: &mut Work,
    order: &Order,
) -> Result<(), UseCaseError<PaymentCommandRefusal>> {
    if order.status != OrderStatus::Pending || order.assets.is_empty() {
        return Ok(());
    }
    let holds = unit.holds_of(order.tenant, &[order.id]).await?;
    let is_locked =
        |asset: Asset| holds.iter().any(|hold| hold.asset == asset && hold.status == HoldStatus::Frozen);
    if order.assets.named().all(is_locked) {
        Ok(())
    } else {
        Err(PaymentCommandRefusal::AssetsNotLocked.into())
    }
}

/// Applies a decision in a unit of work. All events, including those of the order, have the trace of the request that
/// started the payment, not the trace of the report.
pub(super) async fn apply(
    unit: &mut Work,
    payment: &Payment,
    payable: &Payable,
    decision: PaymentDecision,
    settlement: SettlementContext<'_>,
) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
    let SettlementContext { actor, event_factory, refund } = settlement;
    let event_factory = &event_factory.in_trace(payment.trace.as_ref());
    let PaymentDecision { settled, capture, refund: cause, order: action, invoice, .. } = decision;
    let mut announced_by = None;
    let payment = match settled {
        Some((settled, event)) => {
            unit.advance_payment(&settled).await?.or_conflict("payment")?;
            let rows = event_factory.rows_of_payable(0, payable, settled.version, &[event]);
            append(unit.outbox(), rows).await?;
            announced_by = event_factory.first_id();
            settled
        }
        None => payment.clone(),
    };
    if let Some(capture) = capture {
        unit.insert_capture(&capture).await?;
        unit.post(&cash::captured(&capture, &payment, payable, announced_by, event_factory)).await?;
        if let Some(cause) = cause {
            require_unused(unit, IdKind::Refund, refund.0.get()).await?;
            let reason = reason_of(cause, &payment, payable);
            let due = Refund::of(&payment, &capture, refund, cause, reason, event_factory.now);
            unit.insert_refund(&due).await?;
        }
    }
    if let (Some(action), Payable::Order(order)) = (action, payable) {
        // The service itself cancels the order of a failed payment.
        let actor = if action == OrderAction::Pay { actor } else { OrderActor::System };
        transition::apply(unit, order, &action, actor, event_factory, 1).await?;
    }
    if let Some(invoice) = invoice {
        unit.advance_invoice(&invoice).await?.or_conflict("invoice")?;
    }
    Ok(payment)
}

fn reason_of(cause: RefundCause, payment: &Payment, payable: &Payable) -> String {
    match cause {
        RefundCause::SecondCapture => "the gateway captured the payment more than once".to_owned(),
        RefundCause::WrongAmount => {
            format!("the gateway captured another amount than {}", payment.amount)
        }
        RefundCause::LatePayment | RefundCause::Buyer | RefundCause::Seller | RefundCause::Operator => {
            format!("the {} is {}", payable.id().kind(), payable.status())
        }
    }
}
