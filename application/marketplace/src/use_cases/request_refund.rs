//! Use case: a buyer or an operator requests the refund of a paid order.

use chrono::{DateTime, Utc};
use marketplace_domain::{
    Capture, Order, OrderAction, OrderActor, OrderId, OrderStatus, Payment, Refund, RefundCause, RefundId,
    RefundRefusal, RefundReport, RefundResult,
};

use super::settle_refund::{MAX_EVENTS, apply};
use super::{Payments, RefundCommandRefusal, UseCaseError};
use crate::claim::Call;
use crate::context::Role;
use crate::ids::{id_in_use, with_unused_ids};
use crate::ports::{IdKind, Work};
use crate::{cash, privacy};
use handover_outbox::MASK;
use handover_outbox::operations::{Action, Operator, Reason, present_fields, record_already_done};
use handover_outbox::ports::AuditEntry;

/// The refund to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRefund {
    pub order: OrderId,
    /// Reason, as written by the caller.
    pub reason: String,
}

impl Payments {
    /// Starts the refund of a paid order that is not shipped. The order cannot be shipped while the refund is in processing.
    /// If a refund is already in processing, it is returned. If nothing was paid with money, the refund is
    /// settled immediately, without the gateway.
    ///
    /// For an order in another status, the call starts a new refund of captured money that pays no order and whose refund
    /// failed.
    pub async fn request_refund(
        &self,
        call: impl Into<Call<'_, Refund>>,
        command: RequestRefund,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let call = call.into();
        with_unused_ids(&self.ids, || self.request_refund_once(&call, command.clone())).await
    }

    async fn request_refund_once(
        &self,
        call: &Call<'_, Refund>,
        command: RequestRefund,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let context = call.context;
        let is_operator = context.has(Role::Operator);
        let user = if is_operator { context.user() } else { Some(context.require_user()?) };
        let tenant = context.tenant;
        let sees_personal_data = privacy::sees_personal_data(context);
        let id: RefundId = self.ids.next(IdKind::Refund).await?;
        let reference = self.ids.reference();
        let event_factory = self.events.factory(context, MAX_EVENTS);
        let entry =
            context.operator().ok().map(|operator| audit_entry(&operator, &command, event_factory.now));
        let input = (command, event_factory, entry, context.trace.clone());
        call.run(&self.tx, input, move |unit, (command, event_factory, entry, trace), attempt| {
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
                        Err(id_in_use(IdKind::Refund, id.get()).into())
                    };
                }
                let party = user.map_or(OrderActor::Unrelated, |user| order.role_of(user));
                let (actor, cause) = if is_operator && party != OrderActor::Buyer {
                    (OrderActor::Operator, RefundCause::Operator)
                } else {
                    (party, RefundCause::Buyer)
                };
                if let (Some(running), OrderActor::Buyer | OrderActor::Operator) =
                    (order.running_refund(), actor)
                    && let Some(mut running) = unit.refund_by_id(running).await?
                {
                    if let (OrderActor::Operator, Some(entry)) = (actor, entry) {
                        record_already_done(unit.outbox(), attempt, entry).await?;
                    }
                    if actor == OrderActor::Operator
                        && running.cause == RefundCause::Buyer
                        && !sees_personal_data
                    {
                        running.reason = MASK.to_owned();
                    }
                    return Ok(running);
                }
                let started = order.apply(&OrderAction::BeginRefund { refund: id }, actor, event_factory.now);
                let money = CapturedMoney::read(unit, &order).await?;
                let (capture, started) = match started {
                    Ok((started, _)) => {
                        (money.paying().ok_or(RefundRefusal::NothingToRefund)?, Some(started))
                    }
                    Err(refusal) => match money.open() {
                        Some(capture) if matches!(actor, OrderActor::Buyer | OrderActor::Operator) => {
                            (capture, None)
                        }
                        Some(_) | None => return Err(refusal.into()),
                    },
                };
                let payment = money.payment_of(&capture)?;
                let of_capture = Refund::of(
                    payment,
                    &capture,
                    (id, reference),
                    cause,
                    command.reason.clone(),
                    event_factory.now,
                );
                let refund = Refund { trace: Some(trace.clone()), ..of_capture };
                unit.insert_refund(&refund).await?;
                if let (OrderActor::Operator, Some(entry)) = (actor, entry) {
                    unit.outbox().audit(entry).await?;
                }
                let order = match started {
                    Some(started) => {
                        unit.advance_order(&started).await?.or_conflict("order")?;
                        started
                    }
                    None => order,
                };
                if refund.amount.minor() > 0 {
                    return Ok(refund);
                }
                // Nothing was paid with money: settled without the gateway.
                let report = RefundReport { attempt: 1, result: RefundResult::Success, transaction_id: None };
                let decision = refund.decide(&report, &order, &capture, &[], event_factory.now);
                apply(unit, &refund, &order, decision, OrderActor::System, event_factory).await
            })
        })
        .await
    }
}

/// Audit entry of a refund that an operator requests.
fn audit_entry(operator: &Operator, command: &RequestRefund, at: DateTime<Utc>) -> AuditEntry {
    let selection = present_fields([("orderId", Some(command.order.get().into()))]);
    let reason = Reason::new(command.reason.clone()).ok();
    let action = Action { name: "refund.request", selection, reason };
    AuditEntry { matched: 1, changed: 1, ..action.entry(operator, (1, 1), at) }
}

/// The money that was captured for an order.
struct CapturedMoney {
    payments: Vec<Payment>,
    captures: Vec<Capture>,
    refunds: Vec<Refund>,
}

impl CapturedMoney {
    async fn read(
        unit: &mut Work,
        order: &Order,
    ) -> Result<CapturedMoney, UseCaseError<RefundCommandRefusal>> {
        let orders = [order.id];
        let payments = unit.payments_of(order.tenant, &orders).await?;
        let captures = cash::captures_of(&payments, unit.captures_of(order.tenant, &orders).await?);
        // Money of a pending order is not refunded on request; its automatic refund can be retried.
        let is_refundable = order.status != OrderStatus::Pending;
        let captures = if is_refundable { captures } else { Vec::new() };
        let refunds = unit.refunds_of(order.tenant, &orders).await?;
        Ok(CapturedMoney { payments, captures, refunds })
    }

    /// The capture that paid the order.
    fn paying(&self) -> Option<Capture> {
        self.captures.iter().find(|capture| !capture.refund_due).cloned()
    }

    /// A capture that buys nothing and has neither a refund in processing nor a successful refund.
    fn open(&self) -> Option<Capture> {
        let is_open = |capture: &&Capture| capture.refund_due && !capture.has_live_refund(&self.refunds);
        self.captures.iter().find(is_open).cloned()
    }

    fn payment_of(&self, capture: &Capture) -> Result<&Payment, RefundRefusal> {
        self.payments
            .iter()
            .find(|payment| payment.id == capture.payment)
            .ok_or(RefundRefusal::NothingToRefund)
    }
}
