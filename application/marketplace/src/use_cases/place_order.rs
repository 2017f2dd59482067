//! Use case: a buyer places an order. Order, product and events are written in one transaction.

use marketplace_domain::{
    CouponId, Money, NewOrder, Order, OrderRefusal, Points, ProductId, RequestedAssets,
};

use super::{Ordering, UseCaseError};
use crate::claim::Call;
use crate::context::CommandContext;
use crate::event_types::append;
use crate::ids::{require_unused, with_unused_ids};
use crate::ports::IdKind;
use handover_outbox::EVENT_TARGET;
use tracing::info;

/// The order to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceOrder {
    pub product: ProductId,
    /// A coupon of the buyer.
    pub coupon: Option<CouponId>,
    /// Amount to pay from the buyer's wallet.
    pub wallet: Money,
    /// Number of the buyer's points to use.
    pub points: Points,
}

impl PlaceOrder {
    /// Creates the command for an order that is paid with money only.
    pub const fn of(product: ProductId) -> PlaceOrder {
        PlaceOrder { product, coupon: None, wallet: Money::ZERO, points: Points::ZERO }
    }
}

impl Ordering {
    /// Places an order for the caller. Of concurrent buyers of a product at most one succeeds, because of the conditional
    /// write of the product. The consumers lock the assets of the order afterwards. A consumer that
    /// cannot lock its asset cancels the order.
    pub async fn place(
        &self,
        call: impl Into<Call<'_, Order>>,
        command: PlaceOrder,
    ) -> Result<Order, UseCaseError<OrderRefusal>> {
        let call = call.into();
        with_unused_ids(&self.ids, || async {
            let buyer = call.context.require_user()?;
            let event_factory = self.events.factory(call.context, 2);
            let new = NewOrder { id: self.ids.next(IdKind::Order).await?, buyer, now: event_factory.now };
            let tenant = call.context.tenant;
            let rules = self.points;
            call.run(&self.tx, event_factory, move |unit, event_factory, attempt| {
                Box::pin(async move {
                    if attempt.is_repeated() {
                        // The event id proves that an earlier attempt of this command placed the order.
                        if event_factory.is_announced(unit).await?
                            && let Some(placed) = unit.order_by_id(tenant, new.id).await?
                        {
                            return Ok(placed);
                        }
                        require_unused(unit, IdKind::Order, new.id.get()).await?;
                    }
                    let product = unit
                        .product_by_id(tenant, command.product)
                        .await?
                        .ok_or(UseCaseError::NotFound { what: "product" })?;
                    let coupon = match command.coupon {
                        Some(id) => {
                            let coupon =
                                unit.coupon_by_id(tenant, id).await?.filter(|coupon| coupon.user == buyer);
                            Some(coupon.ok_or(UseCaseError::NotFound { what: "coupon" })?)
                        }
                        None => None,
                    };
                    let assets = RequestedAssets { coupon, wallet: command.wallet, points: command.points };
                    let (order, sold, events) = Order::place(&product, new, &assets, rules)?;
                    unit.advance_product(&sold).await?.or_conflict("product")?;
                    unit.insert_order(&order).await?;
                    let events = event_factory.rows(0, &order, order.version, &events);
                    append(unit.outbox(), events).await?;
                    Ok(order)
                })
            })
            .await
            .inspect(|order| log_placed(order, call.context))
        })
        .await
    }
}

fn log_placed(order: &Order, context: &CommandContext) {
    info!(
        target: EVENT_TARGET,
        code = "order.placed",
        orderId = order.id.get(),
        orderNo = %order.order_no,
        productId = order.product.get(),
        traceId = context.trace.trace_id,
        requestId = context.request_id,
        amount = %order.total,
        result = "product locked",
        "[Order] placed"
    );
}
