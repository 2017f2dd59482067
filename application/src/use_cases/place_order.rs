//! A buyer takes a product: the order, the product and the events, or nothing.

use handover_domain::{NewOrder, Order, ProductId};

use super::{UseCaseError, one_row};
use crate::mutants::{Mutant, append_later, planted};
use crate::ports::IdKind;
use crate::{App, CommandContext, with_tx};

/// What is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceOrder {
    /// The product.
    pub product: ProductId,
}

/// Takes the product for the caller. Of any number of buyers at once exactly one succeeds; the conditional write of
/// the product is the only guard (spec §2 "Product").
pub async fn place_order(
    app: &App,
    context: &CommandContext,
    command: PlaceOrder,
) -> Result<Order, UseCaseError> {
    let buyer = context.user().ok_or(UseCaseError::NotAllowed { what: "a signed-in user" })?;
    let announcer = app.announcer(context, 2);
    let new = NewOrder { id: app.ids.next(IdKind::Order).await?, buyer, now: announcer.now };
    let tenant = context.tenant;
    let apart = planted(Mutant::EventOutsideTransaction).then(|| app.tx.clone());
    with_tx(&app.tx, move |unit, attempt| {
        let (announcer, apart) = (announcer.clone(), apart.clone());
        Box::pin(async move {
            if attempt.may_have_happened()
                && let Some(placed) = unit.order_by_id(tenant, new.id).await?
                && !planted(Mutant::RetryAfterUnknownDecidesAgain)
            {
                return Ok(placed);
            }
            let product = unit
                .product_by_id(tenant, command.product)
                .await?
                .ok_or(UseCaseError::NotFound { what: "product" })?;
            let (order, taken, events) = Order::place(&product, new)?;
            one_row(unit.advance_product(&taken).await?, "product")?;
            unit.insert_order(&order).await?;
            let events = announcer.rows(0, tenant, order.version, &events);
            match apart {
                None => unit.append(&events).await?,
                Some(tx) => append_later(tx, events),
            }
            Ok(order)
        })
    })
    .await
}
