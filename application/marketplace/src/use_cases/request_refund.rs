//! Use case: a buyer or an operator requests the refund of a paid order.

use chrono::{DateTime, Utc};
use marketplace_domain::{
    Order, OrderAction, OrderActor, OrderId, OrderStatus, Payment, PaymentStatus, Refund, RefundCause,
    RefundId, RefundRefusal, RefundResult, RefundStatus,
};

use super::settle_refund::settle;
use super::{RefundCommandRefusal, UseCaseError, one_row};
use crate::idempotency::with_stored_response;
use crate::ids::{IdInUse, with_unused_ids};
use crate::ports::{IdKind, Work};
use crate::ticket::SuccessStatus;
use crate::{App, CommandContext, Role, privacy};
use handover_outbox::MASK;
use handover_outbox::operations::{Action, Operator, Reason, present_fields, record_already_done};
use handover_outbox::ports::{AuditEntry, StoreError};

/// The refund to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRefund {
    pub order: OrderId,
    /// Reason, as written by the caller.
    pub reason: String,
}

/// Starts the refund of a paid order that is not shipped. The order cannot be shipped while the refund is in processing
/// (spec §2). If a refund is already in processing, it is returned. If nothing was paid with money, the refund is
/// settled immediately, without the gateway.
///
/// For an order in another status, the call starts a new refund of a late payment whose refund failed.
pub async fn request_refund(
    app: &App,
    context: &CommandContext,
    command: RequestRefund,
) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
    with_unused_ids(&app.ids, || request(app, context, command.clone())).await
}

async fn request(
    app: &App,
    context: &CommandContext,
    command: RequestRefund,
) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
    let is_operator = context.has(Role::Operator);
    let user = if is_operator { context.user() } else { Some(context.require_user()?) };
    let tenant = context.tenant;
    let sees_personal_data = privacy::sees_personal_data(context);
    let id: RefundId = app.ids.next(IdKind::Refund).await?;
    let event_factory = app.event_factory(context, 2);
    let entry = context.operator().ok().map(|operator| audit_entry(&operator, &command, event_factory.now));
    let trace = context.trace.clone();
    with_stored_response(app, context, SuccessStatus::Created, move |unit, attempt| {
        let event_factory = event_factory.clone();
        let reason = command.reason.clone();
        let entry = entry.clone();
        let trace = trace.clone();
        Box::pin(async move {
            let found = match user {
                Some(user) if !is_operator => unit.order_of_party(tenant, command.order, user).await?,
                Some(_) | None => unit.order_by_id(tenant, command.order).await?,
            };
            let order = found.ok_or(UseCaseError::NotFound { what: "order" })?;
            if attempt.may_be_committed()
                && let Some(before) = unit.refund_by_id(id).await?
            {
                // An order has at most one refund in processing, so a refund of this order with this creation time (in
                // microseconds) was written by an earlier attempt.
                let written = (before.tenant, before.order, before.create_time);
                let is_ours = written == (tenant, order.id, event_factory.now);
                return if is_ours {
                    Ok(before)
                } else {
                    Err(IdInUse::error(IdKind::Refund, id.get()).into())
                };
            }
            let party = user.map_or(OrderActor::Unrelated, |user| order.role_of(user));
            let (actor, cause) = if is_operator && party != OrderActor::Buyer {
                (OrderActor::Operator, RefundCause::Operator)
            } else {
                (party, RefundCause::Buyer)
            };
            if let (Some(running), OrderActor::Buyer | OrderActor::Operator) = (order.running_refund(), actor)
                && let Some(mut running) = unit.refund_by_id(running).await?
            {
                if let (OrderActor::Operator, Some(entry)) = (actor, &entry) {
                    record_already_done(unit.outbox(), attempt, entry).await?;
                }
                if actor == OrderActor::Operator && running.cause == RefundCause::Buyer && !sees_personal_data
                {
                    running.reason = MASK.to_owned();
                }
                return Ok(running);
            }
            let started = order.apply(&OrderAction::BeginRefund { refund: id }, actor, event_factory.now);
            let (payment, started) = match started {
                Ok((started, _)) => (paid_by(unit, &order).await?, Some(started)),
                Err(refusal) => match unrefunded_payment(unit, &order).await? {
                    Some(payment) if matches!(actor, OrderActor::Buyer | OrderActor::Operator) => {
                        (payment, None)
                    }
                    Some(_) | None => return Err(refusal.into()),
                },
            };
            let refund =
                Refund { trace: Some(trace), ..Refund::of(&payment, id, cause, reason, event_factory.now) };
            unit.insert_refund(&refund).await?;
            if let (OrderActor::Operator, Some(entry)) = (actor, &entry) {
                unit.outbox().audit(entry).await?;
            }
            let order = match started {
                Some(started) => {
                    one_row(unit.advance_order(&started).await?, "order")?;
                    started
                }
                None => order,
            };
            if refund.amount.minor() > 0 {
                return Ok(refund);
            }
            let done =
                settle(unit, &refund, &order, RefundResult::Success, OrderActor::System, &event_factory)
                    .await?;
            Ok(done.unwrap_or(refund))
        })
    })
    .await
}

/// Audit entry of a refund that an operator requests.
fn audit_entry(operator: &Operator, command: &RequestRefund, at: DateTime<Utc>) -> AuditEntry {
    let selection = present_fields([("orderId", Some(command.order.get().into()))]);
    let reason = Reason::new(command.reason.clone()).ok();
    let action = Action { name: "refund.request", selection, reason };
    AuditEntry { matched: 1, changed: 1, ..action.entry(operator, (1, 1), at) }
}

/// The payment that paid the order.
async fn paid_by(unit: &mut Work, order: &Order) -> Result<Payment, UseCaseError<RefundCommandRefusal>> {
    let payments = unit.payments_of(order.tenant, &[order.id]).await?;
    let paying = |payment: &Payment| payment.status == PaymentStatus::Success && !payment.refund_due;
    payments.into_iter().find(paying).ok_or_else(|| RefundRefusal::NothingToRefund.into())
}

/// A late payment that has neither a refund in processing nor a successful refund.
async fn unrefunded_payment(unit: &mut Work, order: &Order) -> Result<Option<Payment>, StoreError> {
    if order.status == OrderStatus::Pending {
        return Ok(None);
    }
    let refunds = unit.refunds_of(order.tenant, &[order.id]).await?;
    let payments = unit.payments_of(order.tenant, &[order.id]).await?;
    Ok(payments.into_iter().find(|payment| {
        let is_live = |refund: &Refund| refund.payment == payment.id && refund.status != RefundStatus::Failed;
        payment.status == PaymentStatus::Success && payment.refund_due && !refunds.iter().any(is_live)
    }))
}
