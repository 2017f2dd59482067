//! The gateway reports how a payment ended.

use marketplace_domain::{
    Account, Asset, AssetOperation, CancelCause, Entry, HoldStatus, OperationKey, OperationKind, Order,
    OrderAction, OrderActor, OrderStatus, Payment, PaymentId, PaymentRefusal, PaymentResult, PaymentStatus,
    Posting, Refund, RefundCause, RefundId, Settlement,
};

use super::{UseCaseError, one_row, transition};
use crate::app::Announcer;
use crate::ids::{IdTaken, with_own_ids};
use crate::mutants::{Mutant, planted};
use crate::ports::{IdKind, Work};
use crate::{App, CommandContext};
use handover_outbox::ports::StoreError;
use handover_outbox::{append, with_tx};

/// A report that carries the gateway's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlePayment {
    /// Which payment.
    pub payment: PaymentId,
    /// What the gateway says.
    pub report: Settlement,
}

/// Settles the payment and, where it succeeded in time, pays the order: one unit of work. The same report again
/// changes nothing. A success whose order is past paying is recorded, and its refund begins in the same unit. A failure
/// cancels an order that named assets, which frees them (004).
///
/// While assets of the order are still to be locked nothing is settled ([`UseCaseError::AssetsNotLocked`]): the gateway
/// comes again.
pub async fn settle_payment(
    app: &App,
    context: &CommandContext,
    command: SettlePayment,
) -> Result<Payment, UseCaseError> {
    with_own_ids(&app.ids, || settle_reported(app, context, command.clone())).await
}

async fn settle_reported(
    app: &App,
    context: &CommandContext,
    command: SettlePayment,
) -> Result<Payment, UseCaseError> {
    let announcer = app.announcer(context, 2);
    let refund: RefundId = app.ids.next(IdKind::Refund).await?;
    with_tx(&app.tx, move |unit, attempt| {
        let (announcer, report) = (announcer.clone(), command.report.clone());
        Box::pin(async move {
            if attempt.may_have_happened()
                && let Some(taken) = unit.refund_by_id(refund).await?
                && (taken.payment, taken.create_time) != (command.payment, announcer.now)
            {
                return Err(IdTaken::refusal(IdKind::Refund, refund.get()));
            }
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
            if payment.status == PaymentStatus::Processing {
                assets_are_locked(unit, &order).await?;
            }
            let by = By { actor: OrderActor::Gateway, announcer: &announcer, refund };
            Ok(settle(unit, &payment, &order, &report, by).await?.unwrap_or(payment))
        })
    })
    .await
}

/// In whose name, with which ids a payment is settled.
#[derive(Clone, Copy)]
pub(super) struct By<'a> {
    pub(super) actor: OrderActor,
    pub(super) announcer: &'a Announcer,
    pub(super) refund: RefundId,
}

/// A payment is accepted only when every asset that its order names is locked (spec §2).
pub(super) async fn assets_are_locked(unit: &mut Work, order: &Order) -> Result<(), UseCaseError> {
    if order.status != OrderStatus::Pending || order.assets.is_empty() {
        return Ok(());
    }
    let holds = unit.holds_of(order.tenant, order.id).await?;
    let is_locked =
        |asset: Asset| holds.iter().any(|hold| hold.asset == asset && hold.status == HoldStatus::Frozen);
    let all = order.assets.named().all(is_locked);
    if all || planted(Mutant::PaymentBeforeLocks) { Ok(()) } else { Err(UseCaseError::AssetsNotLocked) }
}

/// Settles within a unit of work; `None` if it was settled so before. Its events, also those of the order, are in the
/// trace of the request that started the payment, whatever trace the report has.
pub(super) async fn settle(
    unit: &mut Work,
    payment: &Payment,
    order: &Order,
    report: &Settlement,
    by: By<'_>,
) -> Result<Option<Payment>, UseCaseError> {
    let By { actor, announcer, refund } = by;
    let announcer = &announcer.continuing(payment.trace.as_ref());
    let Some((mut settled, event)) = payment.settle(report, order, announcer.now)? else {
        return Ok(None);
    };
    settled.refund_due = settled.refund_due && !planted(Mutant::LatePaymentNotRecorded);
    let advanced = unit.advance_payment(&settled).await;
    // A taken transaction is the only unique key that this write can meet.
    if let Err(StoreError::Conflict { .. }) = &advanced {
        let transaction_id = report.transaction_id.clone();
        return Err(PaymentRefusal::TransactionTaken { transaction_id }.into());
    }
    one_row(advanced?, "payment")?;
    append(unit.outbox(), &announcer.rows(0, settled.tenant, settled.version, &[event])).await?;
    match report.result {
        PaymentResult::Success => {
            unit.post(&captured(&settled, order, announcer)).await?;
            if order.status == OrderStatus::Pending {
                transition::apply(unit, order, &OrderAction::Pay, actor, announcer, 1).await?;
            }
            if settled.refund_due {
                let reason = format!("the order is {}", order.status);
                let due = Refund::of(&settled, refund, RefundCause::LatePayment, reason, announcer.now);
                unit.insert_refund(&due).await?;
            }
        }
        PaymentResult::Failed => {
            if order.status == OrderStatus::Pending && !order.assets.is_empty() {
                let action = OrderAction::Cancel(CancelCause::PaymentFailed);
                transition::apply(unit, order, &action, OrderActor::System, announcer, 1).await?;
            }
        }
    }
    Ok(Some(settled))
}

/// The money that came in, in the ledger; nothing if it was none.
pub(crate) fn captured(payment: &Payment, order: &Order, announcer: &Announcer) -> Vec<Posting> {
    let amount = payment.amount.minor();
    if amount == 0 {
        return Vec::new();
    }
    vec![Posting {
        operation: AssetOperation {
            tenant: payment.tenant,
            key: OperationKey::capture(payment.id),
            asset: Asset::Cash,
            kind: OperationKind::Capture,
            user: order.buyer,
            order: Some(order.id),
            refund: None,
            coupon: None,
            amount,
            balance_after: None,
            event_id: announcer.first_id().cloned(),
            trace_id: Some(announcer.trace_id().to_owned()),
            at: announcer.now,
        },
        entries: vec![Entry::own(Account::Gateway, -amount), Entry::own(Account::Platform, amount)],
    }]
}
