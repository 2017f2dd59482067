//! A buyer starts to pay.

use handover_domain::{Currency, OrderActor, OrderId, OrderRefusal, OrderStatus, Payment, PaymentStatus};

use super::UseCaseError;
use crate::mutants::{Mutant, planted};
use crate::ports::IdKind;
use crate::{App, CommandContext, with_tx};

/// What is paid, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPayment {
    /// The order.
    pub order: OrderId,
    /// How, in the buyer's words.
    pub method: String,
}

/// Starts the payment of the caller's pending order. An order has one payment in `PROCESSING`: asked again, that one
/// is returned (spec §2 "Payment and refund").
pub async fn start_payment(
    app: &App,
    context: &CommandContext,
    command: StartPayment,
) -> Result<Payment, UseCaseError> {
    let buyer = context.user().ok_or(UseCaseError::NotAllowed { what: "a signed-in user" })?;
    let (tenant, now) = (context.tenant, app.now());
    let id = app.ids.next(IdKind::Payment).await?;
    with_tx(&app.tx, move |unit, _| {
        let method = command.method.clone();
        Box::pin(async move {
            let order = unit
                .order_of_party(tenant, command.order, buyer)
                .await?
                .ok_or(UseCaseError::NotFound { what: "order" })?;
            let actor = order.party(buyer);
            if actor != OrderActor::Buyer && !planted(Mutant::SellerStartsPayment) {
                return Err(OrderRefusal::NotAllowed { actor, action: "pay" }.into());
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
                version: 1,
                create_time: now,
                update_time: now,
            };
            unit.insert_payment(&payment).await?;
            Ok(payment)
        })
    })
    .await
}
