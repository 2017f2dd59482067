//! Use case: an operator of all tenants refunds a paid invoice.

use handover_events::Trace;
use handover_outbox::Attempt;
use handover_outbox::operations::{Action, Reason, present_fields, record_already_done};
use handover_outbox::ports::AuditEntry;
use marketplace_domain::{
    InvoiceId, InvoiceRefusal, Payable, Reference, Refund, RefundCause, RefundId, RefundRefusal, RefundStatus,
};

use super::request_refund::settle_if_nothing_to_pay_back;
use super::settle_refund::MAX_EVENTS;
use super::{Payments, RefundCommandRefusal, UseCaseError};
use crate::cash::{CapturedMoney, require_reports_of_sent_refunds};
use crate::claim::Call;
use crate::context::Role;
use crate::error::NotAllowed;
use crate::events::EventFactory;
use crate::ids::{id_in_use, with_unused_ids};
use crate::ports::{IdKind, Work};

/// The refund of an invoice to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundInvoice {
    pub invoice: InvoiceId,
    pub reason: Reason,
}

impl Payments {
    /// Starts the refund of a paid invoice. If it is already in processing, it is returned. The call is recorded in the audit
    /// log.
    ///
    /// For an invoice in another status, the call starts a new refund of captured money that pays no invoice and whose
    /// refund failed.
    pub async fn refund_invoice(
        &self,
        call: impl Into<Call<'_, Refund>>,
        command: RefundInvoice,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let call = call.into();
        let operator = call.context.operator()?;
        if !call.context.has(Role::Platform) {
            return Err(NotAllowed { what: "the role platform" }.into());
        }
        let selection = present_fields([("invoiceId", Some(command.invoice.get().into()))]);
        let action = Action { name: "invoice.refund", selection, reason: Some(command.reason.clone()) };
        let entry = AuditEntry { changed: 1, ..action.entry(&operator, (1, 1), self.tx.now()) };
        with_unused_ids(&self.ids, || async {
            let attempted = AttemptedRefund {
                command: command.clone(),
                id: self.ids.next(IdKind::Refund).await?,
                reference: self.ids.reference(),
                event_factory: self.events.factory(call.context, MAX_EVENTS),
                entry: entry.clone(),
                trace: call.context.trace.clone(),
            };
            call.run(&self.tx, attempted, |unit, attempted, attempt| Box::pin(attempted.run(unit, attempt)))
                .await
        })
        .await
    }
}

/// A request for a refund, with the ids and the time that each attempt of its unit of work uses.
struct AttemptedRefund {
    command: RefundInvoice,
    id: RefundId,
    reference: Reference,
    event_factory: EventFactory,
    entry: AuditEntry,
    trace: Trace,
}

impl AttemptedRefund {
    async fn run(
        &self,
        unit: &mut Work,
        attempt: Attempt,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let AttemptedRefund { command, id, reference, event_factory, trace, .. } = self;
        let found = unit.invoice_by_id(command.invoice).await?;
        let invoice = found.ok_or(UseCaseError::NotFound { what: "invoice" })?;
        let entry = AuditEntry { tenant: invoice.tenant, ..self.entry.clone() };
        let refused = InvoiceRefusal::WrongStatus { status: invoice.status, action: "refund" };
        let payable = Payable::Invoice(invoice);
        if attempt.is_repeated()
            && let Some(before) = unit.refund_by_id(*id).await?
        {
            let is_ours = (before.of, before.create_time) == (payable.id(), event_factory.now);
            return if is_ours { Ok(before) } else { Err(id_in_use(IdKind::Refund, id.get()).into()) };
        }
        let money = CapturedMoney::read(unit, &payable).await?;
        let capture = if payable.is_paid() {
            money.paying().ok_or(RefundRefusal::NothingToRefund)?
        } else {
            money.open().filter(|_| !payable.is_pending()).ok_or(refused)?
        };
        let is_running =
            |refund: &&Refund| refund.status == RefundStatus::Processing && capture.is_refunded_by(refund);
        if let Some(running) = money.refunds.iter().find(is_running) {
            record_already_done(unit.outbox(), attempt, &entry).await?;
            return Ok(running.clone());
        }
        require_reports_of_sent_refunds(unit, &payable, capture, &money.refunds).await?;
        let payment = money.payment_of(capture)?;
        let reason = command.reason.as_str().to_owned();
        let of_capture =
            Refund::of(payment, capture, (*id, *reference), RefundCause::Operator, reason, event_factory.now);
        let refund = Refund { trace: Some(trace.clone()), ..of_capture };
        // The key of the capture is unique among the refunds that did not fail: another request waits for it.
        unit.insert_refund(&refund).await?;
        unit.outbox().audit(&entry).await?;
        settle_if_nothing_to_pay_back(unit, refund, (&payable, capture), event_factory).await
    }
}
