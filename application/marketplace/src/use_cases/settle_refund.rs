//! Use case: the gateway reports the result of a refund.

use marketplace_domain::{
    Account, Asset, AssetOperation, Entry, OperationKey, OperationKind, Order, OrderAction, OrderActor,
    Posting, Refund, RefundId, RefundResult,
};
use tracing::error;

use super::{RefundCommandRefusal, UseCaseError, one_row, transition};
use crate::app::EventFactory;
use crate::ports::Work;
use crate::{App, CommandContext};
use handover_outbox::{append, with_tx};

/// A report with a valid signature of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettleRefund {
    pub refund: RefundId,
    pub result: RefundResult,
}

/// Settles the refund in one unit of work. A successful refund also changes its order, except the refund of a late
/// payment. A repeated report changes nothing. After a failed refund, the order keeps its status and an alert is logged
/// (spec §2).
pub async fn settle_refund(
    app: &App,
    context: &CommandContext,
    command: SettleRefund,
) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
    let event_factory = app.event_factory(context, 2);
    let settled = with_tx(&app.tx, move |unit, _| {
        let event_factory = event_factory.clone();
        Box::pin(async move {
            let refund =
                unit.refund_by_id(command.refund).await?.ok_or(UseCaseError::NotFound { what: "refund" })?;
            let order = unit
                .order_by_id(refund.tenant, refund.order)
                .await?
                .ok_or(UseCaseError::NotFound { what: "order" })?;
            let settled =
                settle(unit, &refund, &order, command.result, OrderActor::Gateway, &event_factory).await?;
            Ok::<_, UseCaseError<RefundCommandRefusal>>((settled.is_some(), settled.unwrap_or(refund)))
        })
    })
    .await?;
    if let (true, refund) = &settled
        && command.result == RefundResult::Failed
    {
        error!(refundId = %refund.id, orderId = %refund.order, amount = %refund.amount, "[Refund] [ALERT] refund \
            failed; the amount was not paid back, an operator can request the refund again");
    }
    Ok(settled.1)
}

/// Settles a refund in a unit of work; `None` if an earlier report of the gateway settled it with the same result. All
/// events, including those of the order, have the trace of the request that started the refund, not the trace of the
/// report.
pub(super) async fn settle(
    unit: &mut Work,
    refund: &Refund,
    order: &Order,
    result: RefundResult,
    actor: OrderActor,
    event_factory: &EventFactory,
) -> Result<Option<Refund>, UseCaseError<RefundCommandRefusal>> {
    let event_factory = &event_factory.in_trace(refund.trace.as_ref());
    let Some((settled, event)) = refund.settle(result, order, event_factory.now)? else {
        return Ok(None);
    };
    one_row(unit.advance_refund(&settled).await?, "refund")?;
    append(unit.outbox(), &event_factory.rows(0, settled.tenant, settled.version, &[event])).await?;
    if result == RefundResult::Success {
        unit.post(&paid_out(&settled, order, event_factory)).await?;
    }
    // The refund of a late payment does not change the order.
    if order.refund == Some(settled.id) {
        let action = match result {
            RefundResult::Success => OrderAction::Refund { refund: settled.id, amount: settled.amount },
            RefundResult::Failed => OrderAction::AbandonRefund { refund: settled.id },
        };
        transition::apply(unit, order, &action, actor, event_factory, 1).await?;
    }
    Ok(Some(settled))
}

/// Ledger posting of a refunded amount; empty for 0.
pub(crate) fn paid_out(refund: &Refund, order: &Order, event_factory: &EventFactory) -> Vec<Posting> {
    let amount = refund.amount.minor();
    if amount == 0 {
        return Vec::new();
    }
    vec![Posting {
        operation: AssetOperation {
            tenant: refund.tenant,
            key: OperationKey::payout(refund.id),
            asset: Asset::Cash,
            kind: OperationKind::Payout,
            user: order.buyer,
            order: Some(order.id),
            refund: Some(refund.id),
            coupon: None,
            amount,
            balance_after: None,
            event_id: event_factory.first_id().cloned(),
            trace_id: Some(event_factory.trace_id().to_owned()),
            at: event_factory.now,
        },
        entries: vec![Entry::own(Account::Platform, -amount), Entry::own(Account::Gateway, amount)],
    }]
}
