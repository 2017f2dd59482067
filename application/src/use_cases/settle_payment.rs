//! The gateway reports how a payment ended.

use handover_domain::{
    OrderAction, OrderActor, OrderStatus, Payment, PaymentId, PaymentResult, PaymentStatus, Settlement,
};

use super::{UseCaseError, one_row, transition};
use crate::mutants::{Mutant, planted};
use crate::{App, CommandContext, with_tx};

/// A report that carries the gateway's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlePayment {
    /// Which payment.
    pub payment: PaymentId,
    /// What the gateway says.
    pub report: Settlement,
}

/// Settles the payment and, where it succeeded in time, pays the order: one unit of work. The same report again
/// changes nothing. A success whose order is past paying is recorded with its refund due.
pub async fn settle_payment(
    app: &App,
    context: &CommandContext,
    command: SettlePayment,
) -> Result<Payment, UseCaseError> {
    let announcer = app.announcer(context, 2);
    with_tx(&app.tx, move |unit, _| {
        let (announcer, report) = (announcer.clone(), command.report.clone());
        Box::pin(async move {
            let payment = unit
                .payment_by_id(command.payment)
                .await?
                .ok_or(UseCaseError::NotFound { what: "payment" })?;
            let payment = if payment.status == PaymentStatus::Success && planted(Mutant::PaymentSettledTwice)
            {
                Payment { status: PaymentStatus::Processing, ..payment }
            } else {
                payment
            };
            let order = unit
                .order_by_id(payment.tenant, payment.order)
                .await?
                .ok_or(UseCaseError::NotFound { what: "order" })?;
            let Some((mut settled, event)) = payment.settle(&report, &order, announcer.now)? else {
                return Ok(payment);
            };
            settled.refund_due = settled.refund_due && !planted(Mutant::LatePaymentNotRecorded);
            one_row(unit.advance_payment(&settled).await?, "payment")?;
            unit.append(&announcer.rows(0, settled.tenant, settled.version, &[event])).await?;
            if report.result == PaymentResult::Success && order.status == OrderStatus::Pending {
                transition::apply(unit, &order, &OrderAction::Pay, OrderActor::Gateway, &announcer, 1)
                    .await?;
            }
            Ok(settled)
        })
    })
    .await
}
