//! A buyer takes a product: the order, the product and the events, or nothing.

use marketplace_domain::{AskedAssets, CouponId, Money, NewOrder, Order, Points, ProductId};

use super::{UseCaseError, one_row};
use crate::idempotency::{Effect, with_answer};
use crate::ids::{require_free, with_own_ids};
use crate::mutants::{Mutant, append_later, planted};
use crate::ports::IdKind;
use crate::{App, CommandContext};
use handover_outbox::append;

/// What is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceOrder {
    /// The product.
    pub product: ProductId,
    /// A coupon of the buyer's.
    pub coupon: Option<CouponId>,
    /// So much is to come from the buyer's wallet.
    pub wallet: Money,
    /// So many of the buyer's points are to be used.
    pub points: Points,
}

impl PlaceOrder {
    /// The product, paid in money alone.
    pub const fn of(product: ProductId) -> PlaceOrder {
        PlaceOrder { product, coupon: None, wallet: Money::ZERO, points: Points::ZERO }
    }
}

/// Takes the product for the caller. Of any number of buyers at once exactly one succeeds; the conditional write of
/// the product is the only guard (spec §2 "Product"). The assets it names are locked by their consumers afterwards; one
/// that cannot be cancels the order (spec §2 "Assets").
pub async fn place_order(
    app: &App,
    context: &CommandContext,
    command: PlaceOrder,
) -> Result<Order, UseCaseError> {
    with_own_ids(&app.ids, || place(app, context, command)).await
}

async fn place(app: &App, context: &CommandContext, command: PlaceOrder) -> Result<Order, UseCaseError> {
    let buyer = context.user().ok_or(UseCaseError::NotAllowed { what: "a signed-in user" })?;
    let announcer = app.announcer(context, 2);
    let new = NewOrder { id: app.ids.next(IdKind::Order).await?, buyer, now: announcer.now };
    let (tenant, rules) = (context.tenant, app.rules.points);
    let apart = planted(Mutant::EventOutsideTransaction).then(|| app.outbox.tx.clone());
    with_answer(app, context, Effect::Creates, move |unit, attempt| {
        let (announcer, apart) = (announcer.clone(), apart.clone());
        Box::pin(async move {
            if attempt.may_have_happened() && !planted(Mutant::RetryAfterUnknownDecidesAgain) {
                // The order is this command's if its event is: nobody else has the event's id.
                if announcer.is_announced(unit).await?
                    && let Some(placed) = unit.order_by_id(tenant, new.id).await?
                {
                    return Ok(placed);
                }
                require_free(unit, IdKind::Order, new.id.get()).await?;
            }
            let product = unit
                .product_by_id(tenant, command.product)
                .await?
                .ok_or(UseCaseError::NotFound { what: "product" })?;
            let coupon = match command.coupon {
                Some(id) => {
                    let coupon = unit.coupon_by_id(tenant, id).await?.filter(|coupon| coupon.user == buyer);
                    Some(coupon.ok_or(UseCaseError::NotFound { what: "coupon" })?)
                }
                None => None,
            };
            let asked = AskedAssets { coupon, wallet: command.wallet, points: command.points };
            let (order, taken, events) = Order::place(&product, new, &asked, rules)?;
            one_row(unit.advance_product(&taken).await?, "product")?;
            unit.insert_order(&order).await?;
            let events = announcer.rows(0, tenant, order.version, &events);
            match apart {
                None => append(unit.outbox(), &events).await?,
                Some(tx) => append_later(tx, events),
            }
            Ok(order)
        })
    })
    .await
}
