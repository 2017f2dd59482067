//! Use case: the gateway reports the result of a payment.

use marketplace_domain::{
    Account, Asset, AssetOperation, CancelCause, Entry, HoldStatus, OperationKey, OperationKind, Order,
    OrderAction, OrderActor, OrderStatus, Payment, PaymentId, PaymentRefusal, PaymentResult, PaymentStatus,
    Posting, Refund, RefundCause, RefundId, Settlement,
};

use super::{PaymentCommandRefusal, UseCaseError, one_row, transition};
use crate::app::EventFactory;
use crate::ids::{IdInUse, with_unused_ids};
use crate::ports::{IdKind, Work};
use crate::{App, CommandContext};
use handover_outbox::ports::StoreError;
use handover_outbox::{append, with_tx};

/// A report with a valid signature of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlePayment {
    pub payment: PaymentId,
    pub report: Settlement,
}

/// Settles the payment. If it succeeded and the order is pending, pays the order in the same unit of work. A repeated
/// report changes nothing. A successful payment of an order that can no longer be paid is recorded, and its refund
/// starts in the same unit of work. A failed payment cancels a pending order that uses assets, and the cancellation
/// releases them (004).
///
/// # Errors
/// [`PaymentCommandRefusal::AssetsNotLocked`] while an asset of the order is not locked: nothing is settled, and the
/// gateway repeats its report.
pub async fn settle_payment(
    app: &App,
    context: &CommandContext,
    command: SettlePayment,
) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
    with_unused_ids(&app.ids, || settle_report(app, context, command.clone())).await
}

async fn settle_report(
    app: &App,
    context: &CommandContext,
    command: SettlePayment,
) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
    let event_factory = app.event_factory(context, 2);
    let refund: RefundId = app.ids.next(IdKind::Refund).await?;
    with_tx(&app.tx, move |unit, attempt| {
        let event_factory = event_factory.clone();
        let report = command.report.clone();
        Box::pin(async move {
            if attempt.may_be_committed()
                && let Some(existing) = unit.refund_by_id(refund).await?
                && (existing.payment, existing.create_time) != (command.payment, event_factory.now)
            {
                return Err(IdInUse::error(IdKind::Refund, refund.get()).into());
            }
            let payment = unit
                .payment_by_id(command.payment)
                .await?
                .ok_or(UseCaseError::NotFound { what: "payment" })?;
            let order = unit
                .order_by_id(payment.tenant, payment.order)
                .await?
                .ok_or(UseCaseError::NotFound { what: "order" })?;
            if payment.status == PaymentStatus::Processing {
                require_locked_assets(unit, &order).await?;
            }
            let settlement =
                SettlementContext { actor: OrderActor::Gateway, event_factory: &event_factory, refund };
            Ok(settle(unit, &payment, &order, &report, settlement).await?.unwrap_or(payment))
        })
    })
    .await
}

/// Actor and ids for settling a payment.
#[derive(Clone, Copy)]
pub(super) struct SettlementContext<'a> {
    pub(super) actor: OrderActor,
    pub(super) event_factory: &'a EventFactory,
    pub(super) refund: RefundId,
}

/// Requires that every asset of a pending order is locked before a payment is accepted (spec §2).
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

/// Settles a payment in a unit of work; `None` if an earlier report of the gateway settled it with the same result. All
/// events, including those of the order, have the trace of the request that started the payment, not the trace of the
/// report.
pub(super) async fn settle(
    unit: &mut Work,
    payment: &Payment,
    order: &Order,
    report: &Settlement,
    settlement: SettlementContext<'_>,
) -> Result<Option<Payment>, UseCaseError<PaymentCommandRefusal>> {
    let SettlementContext { actor, event_factory, refund } = settlement;
    let event_factory = &event_factory.in_trace(payment.trace.as_ref());
    let Some((settled, event)) = payment.settle(report, order, event_factory.now)? else {
        return Ok(None);
    };
    let advanced = unit.advance_payment(&settled).await;
    // The only unique key that this write can violate is the transaction id of the gateway, so a conflict means that
    // another payment already has this transaction id.
    if let Err(StoreError::Conflict { .. }) = &advanced {
        let transaction_id = report.transaction_id.clone();
        return Err(PaymentRefusal::TransactionTaken { transaction_id }.into());
    }
    one_row(advanced?, "payment")?;
    append(unit.outbox(), &event_factory.rows(0, settled.tenant, settled.version, &[event])).await?;
    match report.result {
        PaymentResult::Success => {
            unit.post(&captured(&settled, order, event_factory)).await?;
            if order.status == OrderStatus::Pending {
                transition::apply(unit, order, &OrderAction::Pay, actor, event_factory, 1).await?;
            }
            if settled.refund_due {
                let reason = format!("the order is {}", order.status);
                let due = Refund::of(&settled, refund, RefundCause::LatePayment, reason, event_factory.now);
                unit.insert_refund(&due).await?;
            }
        }
        PaymentResult::Failed => {
            if order.status == OrderStatus::Pending && !order.assets.is_empty() {
                let action = OrderAction::Cancel(CancelCause::PaymentFailed);
                transition::apply(unit, order, &action, OrderActor::System, event_factory, 1).await?;
            }
        }
    }
    Ok(Some(settled))
}

/// Ledger posting of a captured amount; empty for 0.
pub(crate) fn captured(payment: &Payment, order: &Order, event_factory: &EventFactory) -> Vec<Posting> {
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
            event_id: event_factory.first_id().cloned(),
            trace_id: Some(event_factory.trace_id().to_owned()),
            at: event_factory.now,
        },
        entries: vec![Entry::own(Account::Gateway, -amount), Entry::own(Account::Platform, amount)],
    }]
}
