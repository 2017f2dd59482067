//! Use case: the buyer, the seller or an operator requests the refund of a paid order. A seller declines it by this.

use chrono::{DateTime, Utc};
use handover_events::{TenantId, Trace};
use marketplace_domain::{
    Capture, Money, Order, OrderAction, OrderActor, OrderId, OrderRefusal, Payable, ProductRefusal,
    Reference, Refund, RefundCause, RefundId, RefundRefusal, RefundReport, RefundResult, UserId,
};

use super::settle_refund::{MAX_EVENTS, apply};
use super::{Payments, RefundCommandRefusal, UseCaseError};
use crate::cash::{CapturedMoney, require_reports_of_sent_refunds};
use crate::claim::Call;
use crate::events::EventFactory;
use crate::ids::{id_in_use, with_unused_ids};
use crate::ports::{IdKind, Work};
use crate::privacy;
use handover_outbox::operations::{Action, Operator, Reason, present_fields, record_already_done};
use handover_outbox::ports::AuditEntry;
use handover_outbox::{Attempt, MASK};

/// The refund to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRefund {
    pub order: OrderId,
    /// Reason, as written by the caller.
    pub reason: String,
    /// Whether the product is taken off the shelf when the order is refunded; only its seller may do this.
    pub off_shelf: bool,
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
        let operator = context.operator().ok();
        let user = if operator.is_some() { context.user() } else { Some(context.require_user()?) };
        let id = self.ids.next(IdKind::Refund).await?;
        let reference = self.ids.reference();
        let event_factory = self.events.factory(context, MAX_EVENTS);
        let entry = operator.as_ref().map(|operator| audit_entry(operator, &command, event_factory.now));
        let attempted = AttemptedRefund {
            command,
            tenant: context.tenant,
            user,
            operator,
            sees_personal_data: privacy::sees_personal_data(context),
            id,
            reference,
            event_factory,
            entry,
            trace: context.trace.clone(),
        };
        call.run(&self.tx, attempted, |unit, attempted, attempt| Box::pin(attempted.run(unit, attempt))).await
    }
}

/// A request for a refund, with the ids and the time that each attempt of its unit of work uses.
struct AttemptedRefund {
    command: RequestRefund,
    tenant: TenantId,
    /// The caller; `None` for an operator who is not a user.
    user: Option<UserId>,
    operator: Option<Operator>,
    sees_personal_data: bool,
    id: RefundId,
    reference: Reference,
    event_factory: EventFactory,
    /// The audit entry, if the caller is an operator.
    entry: Option<AuditEntry>,
    trace: Trace,
}

impl AttemptedRefund {
    async fn run(
        &self,
        unit: &mut Work,
        attempt: Attempt,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let id = self.command.order;
        let found = match (&self.operator, self.user) {
            (Some(operator), _) => unit.orders_by_id(operator.only_tenant(), &[id]).await?.pop(),
            (None, Some(user)) => unit.order_of_party(self.tenant, id, user).await?,
            (None, None) => None,
        };
        let order = found.ok_or(UseCaseError::NotFound { what: "order" })?;
        if attempt.is_repeated()
            && let Some(before) = unit.refund_by_id(self.id).await?
        {
            // An order has at most one refund in processing, so a refund of this order with this creation time (in
            // microseconds) was written by an earlier attempt.
            let written = (before.tenant, before.of, before.create_time);
            let is_ours = written == (order.tenant, order.id.into(), self.event_factory.now);
            return if is_ours { Ok(before) } else { Err(id_in_use(IdKind::Refund, self.id.get()).into()) };
        }
        let party = self.user.map_or(OrderActor::Unrelated, |user| order.role_of(user));
        if self.command.off_shelf && party != OrderActor::Seller {
            return Err(OrderRefusal::from(ProductRefusal::NotTheSeller).into());
        }
        let (actor, cause) = if party == OrderActor::Buyer {
            (party, RefundCause::Buyer)
        } else if self.operator.is_some() {
            (OrderActor::Operator, RefundCause::Operator)
        } else {
            (party, RefundCause::Seller)
        };
        match self.running(unit, attempt, &order, actor).await? {
            Some(running) => Ok(running),
            None => self.begin(unit, order, actor, cause).await,
        }
    }

    /// The refund of the order that is already in processing, as the caller sees it.
    async fn running(
        &self,
        unit: &mut Work,
        attempt: Attempt,
        order: &Order,
        actor: OrderActor,
    ) -> Result<Option<Refund>, UseCaseError<RefundCommandRefusal>> {
        let (Some(running), OrderActor::Buyer | OrderActor::Seller | OrderActor::Operator) =
            (order.running_refund(), actor)
        else {
            return Ok(None);
        };
        let Some(mut running) = unit.refund_by_id(running).await? else { return Ok(None) };
        if let (OrderActor::Operator, Some(entry)) = (actor, &self.entry) {
            record_already_done(unit.outbox(), attempt, &of_tenant(entry, order.tenant)).await?;
        }
        if self.command.off_shelf
            && let Some(after) = running.taking_off_shelf(self.event_factory.now)
        {
            unit.advance_refund(&after).await?.or_conflict("refund")?;
            running = after;
        }
        if actor != OrderActor::Operator {
            privacy::mask_operators_reason(&mut running);
        } else if running.cause.is_of_party() && !self.sees_personal_data {
            running.reason = MASK.to_owned();
        }
        Ok(Some(running))
    }

    /// Begins the refund of the capture that paid the order or, if the order has another status, of one that pays nothing.
    async fn begin(
        &self,
        unit: &mut Work,
        order: Order,
        actor: OrderActor,
        cause: RefundCause,
    ) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
        let AttemptedRefund { command, id, reference, event_factory, entry, trace, .. } = self;
        let started = order.apply(&OrderAction::BeginRefund { refund: *id }, actor, event_factory.now);
        let payable = Payable::Order(order);
        let money = CapturedMoney::read(unit, &payable).await?;
        let (capture, started) = match started {
            Ok((started, _)) => (money.paying().ok_or(RefundRefusal::NothingToRefund)?, Some(started)),
            // Money of a pending order is not refunded on request; its automatic refund can be retried.
            Err(refusal) => match money.open().filter(|_| !payable.is_pending()) {
                Some(capture) if matches!(actor, OrderActor::Buyer | OrderActor::Operator) => {
                    require_reports_of_sent_refunds(unit, &payable, capture, &money.refunds).await?;
                    (capture, None)
                }
                Some(_) | None => return Err(refusal.into()),
            },
        };
        let payment = money.payment_of(capture)?;
        let reason = command.reason.clone();
        let of_capture = Refund::of(payment, capture, (*id, *reference), cause, reason, event_factory.now);
        let refund = Refund { trace: Some(trace.clone()), ..of_capture };
        let refund = Refund { off_shelf: command.off_shelf, ..refund };
        unit.insert_refund(&refund).await?;
        if let (OrderActor::Operator, Some(entry)) = (actor, entry) {
            unit.outbox().audit(&of_tenant(entry, payable.tenant())).await?;
        }
        let payable = match started {
            Some(started) => {
                unit.advance_order(&started).await?.or_conflict("order")?;
                Payable::Order(started)
            }
            None => payable,
        };
        settle_if_nothing_to_pay_back(unit, refund, (&payable, capture), event_factory).await
    }
}

/// Audit entry of a refund that an operator requests.
fn audit_entry(operator: &Operator, command: &RequestRefund, at: DateTime<Utc>) -> AuditEntry {
    let selection = present_fields([("orderId", Some(command.order.get().into()))]);
    let reason = Reason::new(command.reason.clone()).ok();
    let action = Action { name: "refund.request", selection, reason };
    AuditEntry { matched: 1, changed: 1, ..action.entry(operator, (1, 1), at) }
}

/// The entry in the tenant of the order: an operator of all tenants has another.
fn of_tenant(entry: &AuditEntry, tenant: TenantId) -> AuditEntry {
    AuditEntry { tenant, ..entry.clone() }
}

/// Settles a refund without the gateway if nothing was paid with money.
pub(super) async fn settle_if_nothing_to_pay_back(
    unit: &mut Work,
    refund: Refund,
    (payable, capture): (&Payable, &Capture),
    event_factory: &EventFactory,
) -> Result<Refund, UseCaseError<RefundCommandRefusal>> {
    if refund.amount > Money::ZERO {
        return Ok(refund);
    }
    let report = RefundReport { attempt: 1, result: RefundResult::Success, transaction_id: None };
    let decision = refund.decide(&report, payable, capture, &[], event_factory.now);
    apply(unit, &refund, payable, decision, OrderActor::System, event_factory).await
}
