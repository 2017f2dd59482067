//! Use case: the buyer starts the payment of an order.

use handover_events::{TenantId, Trace};
use handover_outbox::Attempt;
use marketplace_domain::{
    Currency, Money, Order, OrderActor, OrderId, OrderRefusal, OrderStatus, Payment, PaymentId,
    PaymentMethod, PaymentResult, PaymentStatus, Reference, RefundId, Settlement, UserId,
};

use super::settle_payment::{SettlementContext, apply, require_locked_assets};
use super::{PaymentCommandRefusal, Payments, UseCaseError};
use crate::claim::Call;
use crate::events::EventFactory;
use crate::ids::{id_in_use, with_unused_ids};
use crate::ports::{IdKind, Work};

/// The payment to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPayment {
    pub order: OrderId,
    /// `None`: that of the payment in `PROCESSING`, or else the default.
    pub method: Option<PaymentMethod>,
}

impl Payments {
    /// Starts the payment of the caller's pending order. An order has at most one payment in `PROCESSING`; if there is one,
    /// it is returned, unless the command names another method. If assets cover the whole price, the order is paid immediately, without the gateway.
    pub async fn start(
        &self,
        call: impl Into<Call<'_, Payment>>,
        command: StartPayment,
    ) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
        let call = call.into();
        with_unused_ids(&self.ids, || async {
            let attempted = AttemptedPayment {
                command: command.clone(),
                tenant: call.context.tenant,
                buyer: call.context.require_user()?,
                id: self.ids.next(IdKind::Payment).await?,
                reference: self.ids.reference(),
                refund: (self.ids.next(IdKind::Refund).await?, self.ids.reference()),
                event_factory: self.events.factory(call.context, 2),
                trace: call.context.trace.clone(),
            };
            call.run(&self.tx, attempted, |unit, attempted, attempt| Box::pin(attempted.run(unit, attempt)))
                .await
        })
        .await
    }
}

/// A payment to start, with the ids and the time that each attempt of its unit of work uses.
struct AttemptedPayment {
    command: StartPayment,
    tenant: TenantId,
    buyer: UserId,
    id: PaymentId,
    reference: Reference,
    /// Id and reference of the refund of the payment, if it pays no order.
    refund: (RefundId, Reference),
    event_factory: EventFactory,
    trace: Trace,
}

impl AttemptedPayment {
    async fn run(
        &self,
        unit: &mut Work,
        attempt: Attempt,
    ) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
        let order = unit
            .order_of_party(self.tenant, self.command.order, self.buyer)
            .await?
            .ok_or(UseCaseError::NotFound { what: "order" })?;
        let actor = order.role_of(self.buyer);
        if actor != OrderActor::Buyer {
            return Err(OrderRefusal::NotAllowed { actor, action: "pay" }.into());
        }
        if attempt.may_be_committed()
            && let Some(before) = unit.payment_by_id(self.id).await?
        {
            // An order has at most one payment in processing, so a payment of this order with this creation time
            // (in microseconds) was written by an earlier attempt.
            let written = (before.tenant, before.order, before.create_time);
            let is_ours = written == (self.tenant, order.id, self.event_factory.now);
            return if is_ours { Ok(before) } else { Err(id_in_use(IdKind::Payment, self.id.get()).into()) };
        }
        if order.status != OrderStatus::Pending {
            return Err(OrderRefusal::WrongStatus { status: order.status, action: "pay" }.into());
        }
        if let Some(running) = unit.payment_in_processing(self.tenant, order.id).await? {
            // The method of a payment of an earlier version is not known.
            let is_same = |method| method == running.method || running.method == PaymentMethod::Other;
            return match self.command.method.is_none_or(is_same) {
                true => Ok(running),
                false => Err(PaymentCommandRefusal::OtherMethod { running: running.method }.into()),
            };
        }
        let payment = self.payment_of(&order);
        if payment.amount > Money::ZERO {
            unit.insert_payment(&payment).await?;
            return Ok(payment);
        }
        // Assets cover the whole price: settle without the gateway.
        require_locked_assets(unit, &order).await?;
        unit.insert_payment(&payment).await?;
        let report = Settlement {
            transaction_id: format!("without-gateway-{}", self.id),
            result: PaymentResult::Success,
            amount: payment.amount,
        };
        let AttemptedPayment { event_factory, refund, .. } = self;
        let settlement = SettlementContext { actor: OrderActor::System, event_factory, refund: *refund };
        let decision = payment.decide(&report, &order, 0, None, event_factory.now);
        apply(unit, &payment, &order, decision, settlement).await
    }

    fn payment_of(&self, order: &Order) -> Payment {
        let now = self.event_factory.now;
        Payment {
            id: self.id,
            reference: Some(self.reference),
            tenant: self.tenant,
            order: order.id,
            amount: order.payable,
            currency: Currency::CNY,
            method: self.command.method.unwrap_or_default(),
            status: PaymentStatus::Processing,
            transaction_id: None,
            refund_due: false,
            trace: Some(self.trace.clone()),
            version: 1,
            create_time: now,
            update_time: now,
        }
    }
}
