//! A buyer starts to pay.

use marketplace_domain::{
    Currency, Money, OrderActor, OrderId, OrderRefusal, OrderStatus, Payment, PaymentId, PaymentResult,
    PaymentStatus, Settlement,
};

use super::UseCaseError;
use super::settle_payment::{By, assets_are_locked, settle};
use crate::idempotency::{Effect, with_answer};
use crate::ids::{IdTaken, with_own_ids};
use crate::mutants::{Mutant, planted};
use crate::ports::IdKind;
use crate::{App, CommandContext};

/// What is paid, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPayment {
    /// The order.
    pub order: OrderId,
    /// How, in the buyer's words.
    pub method: String,
}

/// Starts the payment of the caller's pending order. An order has one payment in `PROCESSING`: asked again, that one
/// is returned. Where assets pay the whole price, the order is paid at once, without the gateway (spec §2 "Payment and
/// refund").
pub async fn start_payment(
    app: &App,
    context: &CommandContext,
    command: StartPayment,
) -> Result<Payment, UseCaseError> {
    with_own_ids(&app.ids, || start(app, context, command.clone())).await
}

async fn start(app: &App, context: &CommandContext, command: StartPayment) -> Result<Payment, UseCaseError> {
    let buyer = context.user().ok_or(UseCaseError::NotAllowed { what: "a signed-in user" })?;
    let tenant = context.tenant;
    let id: PaymentId = app.ids.next(IdKind::Payment).await?;
    let refund = app.ids.next(IdKind::Refund).await?;
    let announcer = app.announcer(context, 2);
    let now = announcer.now;
    let trace = context.trace.clone();
    with_answer(app, context, Effect::Creates, move |unit, attempt| {
        let (method, announcer, trace) = (command.method.clone(), announcer.clone(), trace.clone());
        Box::pin(async move {
            let order = unit
                .order_of_party(tenant, command.order, buyer)
                .await?
                .ok_or(UseCaseError::NotFound { what: "order" })?;
            let actor = order.party(buyer);
            if actor != OrderActor::Buyer && !planted(Mutant::SellerStartsPayment) {
                return Err(OrderRefusal::NotAllowed { actor, action: "pay" }.into());
            }
            if attempt.may_have_happened()
                && let Some(before) = unit.payment_by_id(id).await?
            {
                // A payment of the caller's order, made in this microsecond: an order has one in processing.
                let is_ours = (before.tenant, before.order, before.create_time) == (tenant, order.id, now);
                return if is_ours { Ok(before) } else { Err(IdTaken::refusal(IdKind::Payment, id.get())) };
            }
            if order.status != OrderStatus::Pending {
                return Err(OrderRefusal::WrongStatus { status: order.status, action: "pay" }.into());
            }
            if let Some(running) = unit.payment_in_processing(tenant, order.id).await? {
                return Ok(running);
            }
            let payment = Payment {
                id,
                tenant,
                order: order.id,
                amount: order.payable,
                currency: Currency::CNY,
                method,
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
            // Nothing is left for the gateway to do.
            assets_are_locked(unit, &order).await?;
            unit.insert_payment(&payment).await?;
            let report = Settlement {
                transaction_id: format!("without-gateway-{id}"),
                result: PaymentResult::Success,
                amount: payment.amount,
            };
            let by = By { actor: OrderActor::System, announcer: &announcer, refund };
            let settled = settle(unit, &payment, &order, &report, by).await?;
            Ok(settled.unwrap_or(payment))
        })
    })
    .await
}
