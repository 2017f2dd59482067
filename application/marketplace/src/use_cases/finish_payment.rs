//! Use case: finish a payment or refund whose order did not change with it, for example after rows were changed by SQL.

use handover_events::TenantId;
use marketplace_domain::{
    Capture, Order, OrderAction, OrderActor, OrderId, OrderStatus, Payment, Reference, Refund, RefundCause,
    RefundId, RefundStatus,
};

use super::settle_payment::require_locked_assets;
use super::{PaymentCommandRefusal, Payments, UseCaseError, transition};
use crate::cash;
use crate::consistency::{MoneyMismatch, OrderMoney, refunds_in_ledger};
use crate::context::CommandContext;
use crate::events::EventFactory;
use crate::ids::{require_unused, with_unused_ids};
use crate::ports::{IdKind, Work};
use handover_outbox::operations::changed_by_earlier_attempt;
use handover_outbox::ports::{AuditEntry, Changed, StoreError};
use handover_outbox::with_tx;

/// How a mismatch was finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    /// The order was paid, as by the report of the gateway.
    OrderPaid,
    /// The refund of money that buys nothing was started.
    RefundStarted,
    /// The order was refunded, as by the report of the gateway.
    OrderRefunded,
    /// The order no longer waits for its failed refund, as by the report of the gateway.
    RefundAbandoned,
}

/// A mismatch to finish.
#[derive(Debug, Clone)]
pub(crate) struct FinishPayment {
    pub(crate) tenant: TenantId,
    pub(crate) order: OrderId,
    pub(crate) mismatch: MoneyMismatch,
    /// Audit entry of the operator who repairs; `None` for a job.
    pub(crate) entry: Option<AuditEntry>,
}

impl Payments {
    /// Finishes a mismatch in one unit of work if its outcome is certain. Returns `None` if the mismatch no longer exists,
    /// if its outcome is not certain, or if a business rule does not allow it yet. Concurrent and repeated calls finish it
    /// once: the order is changed by a conditional write, and a capture has at most one refund that is not FAILED.
    ///
    /// The caller MUST have appended the missing events of the order before: the id of a repaired event contains the version
    /// of the payment, which the start of its refund may increment.
    pub(crate) async fn finish(
        &self,
        context: &CommandContext,
        command: FinishPayment,
    ) -> Result<Option<Finished>, StoreError> {
        let finished = with_unused_ids::<_, UseCaseError<PaymentCommandRefusal>, _>(&self.ids, || async {
            let input = (command.clone(), self.events.factory(context, 1));
            let refund: RefundId = self.ids.next(IdKind::Refund).await?;
            let refund = (refund, self.ids.reference());
            with_tx(&self.tx, input, move |unit, (command, event_factory), attempt| {
                Box::pin(async move {
                    let Some(order) = unit.order_by_id(command.tenant, command.order).await? else {
                        return Ok(None);
                    };
                    if let Some(entry) = &command.entry
                        && changed_by_earlier_attempt(unit.outbox(), attempt, entry).await?.is_some()
                    {
                        return Ok(outcome(command.mismatch, &order));
                    }
                    let payments = unit.payments_of(order.tenant, &[order.id]).await?;
                    let stored = unit.captures_of(order.tenant, &[order.id]).await?;
                    let captures = cash::captures_of(&payments, stored);
                    let refunds = unit.refunds_of(order.tenant, &[order.id]).await?;
                    let money = OrderMoney {
                        order: &order,
                        payments: &payments,
                        captures: &captures,
                        refunds: &refunds,
                    };
                    if !money.mismatches().contains(&command.mismatch) {
                        return Ok(None);
                    }
                    let finished = finish(unit, &money, command.mismatch, (refund, event_factory)).await?;
                    if finished.is_some()
                        && let Some(entry) = &command.entry
                    {
                        unit.outbox().audit(&AuditEntry { changed: 1, ..entry.clone() }).await?;
                    }
                    Ok(finished)
                })
            })
            .await
        })
        .await;
        match finished {
            Ok(finished) => Ok(finished),
            Err(UseCaseError::Store(error)) => Err(error),
            Err(
                UseCaseError::NotFound { .. }
                | UseCaseError::NotAllowed(_)
                | UseCaseError::Refused(_)
                | UseCaseError::KeyReused
                | UseCaseError::InProgress
                | UseCaseError::Replayed(_),
            ) => Ok(None),
        }
    }
}

/// What an earlier attempt did, from the order after it.
fn outcome(mismatch: MoneyMismatch, order: &Order) -> Option<Finished> {
    match mismatch {
        MoneyMismatch::PaidWithoutPayment | MoneyMismatch::PaymentFailed(_) => None,
        MoneyMismatch::PaymentNotApplied(_) => Some(Finished::OrderPaid),
        MoneyMismatch::NotRefunded(..) => Some(Finished::RefundStarted),
        MoneyMismatch::RefundNotApplied(_) if order.status == OrderStatus::Refunded => {
            Some(Finished::OrderRefunded)
        }
        MoneyMismatch::RefundNotApplied(_) => Some(Finished::RefundAbandoned),
    }
}

/// Writes the change that the mismatch lacks. Returns `None` if the outcome is not certain.
async fn finish(
    unit: &mut Work,
    money: &OrderMoney<'_>,
    mismatch: MoneyMismatch,
    (refund, event_factory): ((RefundId, Reference), &EventFactory),
) -> Result<Option<Finished>, UseCaseError<PaymentCommandRefusal>> {
    let OrderMoney { order, payments, refunds, .. } = *money;
    let (action, trace, finished) = match mismatch {
        MoneyMismatch::PaidWithoutPayment | MoneyMismatch::PaymentFailed(_) => return Ok(None),
        MoneyMismatch::PaymentNotApplied(id) => {
            let is_payable = |it: &&Payment| it.id == id && it.amount == order.payable;
            let Some(payment) = payments.iter().find(is_payable) else { return Ok(None) };
            require_locked_assets(unit, order).await?;
            (OrderAction::Pay, &payment.trace, Finished::OrderPaid)
        }
        MoneyMismatch::NotRefunded(id, number) => {
            let Some(payment) = payments.iter().find(|it| it.id == id) else { return Ok(None) };
            let Some(capture) = money.capture(id, number) else { return Ok(None) };
            if !money.was_never_refunded(capture, &refunds_in_ledger(unit, order).await?) {
                return Ok(None);
            }
            start_refund(unit, order, (payment, capture), (refund, event_factory)).await?;
            return Ok(Some(Finished::RefundStarted));
        }
        MoneyMismatch::RefundNotApplied(id) => {
            let is_of_order = |it: &&Refund| it.id == id && order.refund == Some(id);
            let Some(refund) = refunds.iter().find(is_of_order) else { return Ok(None) };
            match refund.status {
                RefundStatus::Processing => return Ok(None),
                RefundStatus::Success => (refund.order_action(), &refund.trace, Finished::OrderRefunded),
                RefundStatus::Failed => {
                    (OrderAction::AbandonRefund { refund: id }, &refund.trace, Finished::RefundAbandoned)
                }
            }
        }
    };
    let event_factory = event_factory.in_trace(trace.as_ref());
    let changed: Result<Order, UseCaseError<PaymentCommandRefusal>> =
        transition::apply(unit, order, &action, OrderActor::System, &event_factory, 0).await;
    changed.map(|_| Some(finished))
}

/// Starts the refund of money that did not pay its order, as for a late payment.
async fn start_refund(
    unit: &mut Work,
    order: &Order,
    (payment, capture): (&Payment, &Capture),
    (refund, event_factory): ((RefundId, Reference), &EventFactory),
) -> Result<(), StoreError> {
    require_unused(unit, IdKind::Refund, refund.0.get()).await?;
    // A refunded order was paid by a payment that is not late, and so may an order of which a payment has another capture.
    // `update_time` remains the time of the gateway's report.
    if capture.is_success_of(payment) && !payment.refund_due && order.status != OrderStatus::Refunded {
        let late = Payment { refund_due: true, version: payment.version + 1, ..payment.clone() };
        unit.advance_payment(&late).await?.or_conflict("payment")?;
    }
    let reason = format!("the order is {}", order.status);
    if !capture.refund_due && order.status != OrderStatus::Refunded {
        let open = Capture { refund_due: true, ..capture.clone() };
        // The capture of a payment that an earlier version settled has no row.
        if unit.update_capture(&open).await? == Changed::None {
            unit.insert_capture(&open).await?;
        }
    }
    let due = Refund::of(payment, capture, refund, RefundCause::LatePayment, reason, event_factory.now);
    unit.insert_refund(&due).await
}
