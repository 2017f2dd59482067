//! Use case: the buyer starts the payment of an order.

use marketplace_domain::{
    Currency, Money, OrderActor, OrderId, OrderRefusal, OrderStatus, Payment, PaymentId, PaymentMethod,
    PaymentResult, PaymentStatus, Settlement,
};

use super::settle_payment::{SettlementContext, apply, require_locked_assets};
use super::{PaymentCommandRefusal, Payments, UseCaseError};
use crate::claim::Call;
use crate::ids::{id_in_use, with_unused_ids};
use crate::ports::IdKind;

/// The payment to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPayment {
    pub order: OrderId,
    pub method: PaymentMethod,
}

impl Payments {
    /// Starts the payment of the caller's pending order. An order has at most one payment in `PROCESSING`; if there is one,
    /// it is returned. If assets cover the whole price, the order is paid immediately, without the gateway.
    pub async fn start(
        &self,
        call: impl Into<Call<'_, Payment>>,
        command: StartPayment,
    ) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
        let call = call.into();
        with_unused_ids(&self.ids, || async {
            let buyer = call.context.require_user()?;
            let tenant = call.context.tenant;
            let id: PaymentId = self.ids.next(IdKind::Payment).await?;
            let reference = self.ids.reference();
            let refund = (self.ids.next(IdKind::Refund).await?, self.ids.reference());
            let event_factory = self.events.factory(call.context, 2);
            let now = event_factory.now;
            let input = (event_factory, call.context.trace.clone());
            call.run(&self.tx, input, move |unit, (event_factory, trace), attempt| {
                Box::pin(async move {
                    let order = unit
                        .order_of_party(tenant, command.order, buyer)
                        .await?
                        .ok_or(UseCaseError::NotFound { what: "order" })?;
                    let actor = order.role_of(buyer);
                    if actor != OrderActor::Buyer {
                        return Err(OrderRefusal::NotAllowed { actor, action: "pay" }.into());
                    }
                    if attempt.may_be_committed()
                        && let Some(before) = unit.payment_by_id(id).await?
                    {
                        // An order has at most one payment in processing, so a payment of this order with this creation time
                        // (in microseconds) was written by an earlier attempt.
                        let is_ours =
                            (before.tenant, before.order, before.create_time) == (tenant, order.id, now);
                        return if is_ours {
                            Ok(before)
                        } else {
                            Err(id_in_use(IdKind::Payment, id.get()).into())
                        };
                    }
                    if order.status != OrderStatus::Pending {
                        return Err(OrderRefusal::WrongStatus { status: order.status, action: "pay" }.into());
                    }
                    if let Some(running) = unit.payment_in_processing(tenant, order.id).await? {
                        return Ok(running);
                    }
                    let payment = Payment {
                        id,
                        reference: Some(reference),
                        tenant,
                        order: order.id,
                        amount: order.payable,
                        currency: Currency::CNY,
                        method: command.method,
                        status: PaymentStatus::Processing,
                        transaction_id: None,
                        refund_due: false,
                        trace: Some(trace.clone()),
                        version: 1,
                        create_time: now,
                        update_time: now,
                    };
                    if payment.amount > Money::ZERO {
                        unit.insert_payment(&payment).await?;
                        return Ok(payment);
                    }
                    // Assets cover the whole price: settle without the gateway.
                    require_locked_assets(unit, &order).await?;
                    unit.insert_payment(&payment).await?;
                    let report = Settlement {
                        transaction_id: format!("without-gateway-{id}"),
                        result: PaymentResult::Success,
                        amount: payment.amount,
                    };
                    let settlement = SettlementContext { actor: OrderActor::System, event_factory, refund };
                    let decision = payment.decide(&report, &order, 0, None, now);
                    apply(unit, &payment, &order, decision, settlement).await
                })
            })
            .await
        })
        .await
    }
}
