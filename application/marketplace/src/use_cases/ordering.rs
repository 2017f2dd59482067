//! Use cases of orders and products. A buyer cancels or completes an order, its seller ships it; the other use cases have
//! their own files.

use std::sync::Arc;

use marketplace_domain::{CancelCause, Order, OrderAction, OrderId, OrderRefusal, PointsRules, Shipment};

use super::transition;
use crate::claim::Call;
use crate::error::UseCaseError;
use crate::events::EventSource;
use crate::ids::Ids;
use crate::ports::MarketTransactor;

type OrderResult = Result<Order, UseCaseError<OrderRefusal>>;

/// Places orders and changes orders and products.
#[derive(Clone)]
pub struct Ordering {
    pub(crate) tx: MarketTransactor,
    pub(crate) ids: Arc<Ids>,
    pub(crate) events: EventSource,
    pub(crate) points: PointsRules,
}

impl Ordering {
    /// Cancels the caller's unpaid order and releases its product.
    pub async fn cancel(&self, call: impl Into<Call<'_, Order>>, id: OrderId) -> OrderResult {
        self.apply(call.into(), id, OrderAction::Cancel(CancelCause::Buyer)).await
    }

    /// Completes the caller's shipped order: the buyer confirms receipt.
    pub async fn complete(&self, call: impl Into<Call<'_, Order>>, id: OrderId) -> OrderResult {
        self.apply(call.into(), id, OrderAction::Complete).await
    }

    /// Marks a paid order that the caller sold as shipped.
    pub async fn ship(
        &self,
        call: impl Into<Call<'_, Order>>,
        id: OrderId,
        shipment: Shipment,
    ) -> OrderResult {
        self.apply(call.into(), id, OrderAction::Ship(shipment)).await
    }

    /// Applies an action of a buyer or seller in its own unit of work. For other users the order is not found.
    async fn apply(&self, call: Call<'_, Order>, id: OrderId, action: OrderAction) -> OrderResult {
        let user = call.context.require_user()?;
        let tenant = call.context.tenant;
        let input = (action, self.events.factory(call.context, 1));
        call.run(&self.tx, input, move |unit, (action, event_factory), attempt| {
            Box::pin(async move {
                let order = unit
                    .order_of_party(tenant, id, user)
                    .await?
                    .ok_or(UseCaseError::NotFound { what: "order" })?;
                if attempt.may_be_committed() && event_factory.is_announced(unit).await? {
                    return Ok(order);
                }
                transition::apply(unit, &order, action, order.role_of(user), event_factory, 0).await
            })
        })
        .await
    }
}
