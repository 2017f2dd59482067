//! Use cases of orders and products. A buyer cancels or completes an order, its seller ships it; the other use cases have
//! their own files.

use std::sync::Arc;

use marketplace_domain::{CancelCause, Order, OrderAction, OrderId, OrderRefusal, PointsRules, Shipment};

use super::transition;
use crate::context::CommandContext;
use crate::error::UseCaseError;
use crate::events::EventSource;
use crate::idempotency::with_stored_response;
use crate::ids::Ids;
use crate::ports::MarketTransactor;
use crate::ticket::SuccessStatus;

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
    pub async fn cancel(
        &self,
        context: &CommandContext,
        id: OrderId,
    ) -> Result<Order, UseCaseError<OrderRefusal>> {
        self.apply(context, id, OrderAction::Cancel(CancelCause::Buyer)).await
    }

    /// Completes the caller's shipped order: the buyer confirms receipt.
    pub async fn complete(
        &self,
        context: &CommandContext,
        id: OrderId,
    ) -> Result<Order, UseCaseError<OrderRefusal>> {
        self.apply(context, id, OrderAction::Complete).await
    }

    /// Marks a paid order that the caller sold as shipped.
    pub async fn ship(
        &self,
        context: &CommandContext,
        id: OrderId,
        shipment: Shipment,
    ) -> Result<Order, UseCaseError<OrderRefusal>> {
        self.apply(context, id, OrderAction::Ship(shipment)).await
    }

    /// Applies an action of a buyer or seller in its own unit of work. For other users the order is not found.
    async fn apply(
        &self,
        context: &CommandContext,
        id: OrderId,
        action: OrderAction,
    ) -> Result<Order, UseCaseError<OrderRefusal>> {
        let user = context.require_user()?;
        let tenant = context.tenant;
        let event_factory = self.events.factory(context, 1);
        with_stored_response(&self.tx, context, SuccessStatus::Ok, move |unit, attempt| {
            let action = action.clone();
            let event_factory = event_factory.clone();
            Box::pin(async move {
                let order = unit
                    .order_of_party(tenant, id, user)
                    .await?
                    .ok_or(UseCaseError::NotFound { what: "order" })?;
                if attempt.may_be_committed() && event_factory.is_announced(unit).await? {
                    return Ok(order);
                }
                transition::apply(unit, &order, &action, order.role_of(user), &event_factory, 0).await
            })
        })
        .await
    }
}
