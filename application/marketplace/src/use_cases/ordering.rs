//! Use cases of orders and products. A buyer cancels or completes an order, its seller ships or declines it; the other use
//! cases have their own files.

use std::sync::Arc;

use marketplace_domain::{
    CancelCause, Order, OrderAction, OrderActor, OrderId, OrderRefusal, PointsRules, ProductRefusal, Shipment,
};

use super::transition;
use crate::claim::Call;
use crate::error::UseCaseError;
use crate::events::EventSource;
use crate::ids::Ids;
use crate::ports::MarketTransactor;

type OrderResult = Result<Order, UseCaseError<OrderRefusal>>;

/// The unpaid order to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelOrder {
    pub order: OrderId,
    /// Whether the product is taken off the shelf; only its seller may do this.
    pub off_shelf: bool,
}

impl From<OrderId> for CancelOrder {
    fn from(order: OrderId) -> CancelOrder {
        CancelOrder { order, off_shelf: false }
    }
}

/// A step of a buyer or seller.
#[derive(Debug, Clone)]
enum Step {
    Cancel { off_shelf: bool },
    Complete,
    Ship(Shipment),
}

impl Step {
    /// The action of this step if `actor` takes it.
    fn action_of(&self, actor: OrderActor) -> Result<OrderAction, OrderRefusal> {
        Ok(match self {
            Step::Cancel { off_shelf } if actor == OrderActor::Seller => {
                OrderAction::Cancel(CancelCause::Seller { off_shelf: *off_shelf })
            }
            Step::Cancel { off_shelf: true } => return Err(ProductRefusal::NotTheSeller.into()),
            Step::Cancel { off_shelf: false } => OrderAction::Cancel(CancelCause::Buyer),
            Step::Complete => OrderAction::Complete,
            Step::Ship(shipment) => OrderAction::Ship(shipment.clone()),
        })
    }
}

/// Places orders and changes orders and products.
#[derive(Clone)]
pub struct Ordering {
    pub(crate) tx: MarketTransactor,
    pub(crate) ids: Arc<Ids>,
    pub(crate) events: EventSource,
    pub(crate) points: PointsRules,
}

impl Ordering {
    /// Cancels an unpaid order and releases its product: the buyer cancels it, or the seller declines it.
    pub async fn cancel(
        &self,
        call: impl Into<Call<'_, Order>>,
        command: impl Into<CancelOrder>,
    ) -> OrderResult {
        let CancelOrder { order, off_shelf } = command.into();
        self.apply(call.into(), order, Step::Cancel { off_shelf }).await
    }

    /// Completes the caller's shipped order: the buyer confirms receipt.
    pub async fn complete(&self, call: impl Into<Call<'_, Order>>, id: OrderId) -> OrderResult {
        self.apply(call.into(), id, Step::Complete).await
    }

    /// Marks a paid order that the caller sold as shipped.
    pub async fn ship(
        &self,
        call: impl Into<Call<'_, Order>>,
        id: OrderId,
        shipment: Shipment,
    ) -> OrderResult {
        self.apply(call.into(), id, Step::Ship(shipment)).await
    }

    /// Applies a step of a buyer or seller in its own unit of work. For other users the order is not found.
    async fn apply(&self, call: Call<'_, Order>, id: OrderId, step: Step) -> OrderResult {
        let user = call.context.require_user()?;
        let tenant = call.context.tenant;
        let input = (step, self.events.factory(call.context, 1));
        call.run(&self.tx, input, move |unit, (step, event_factory), attempt| {
            Box::pin(async move {
                let order = unit
                    .order_of_party(tenant, id, user)
                    .await?
                    .ok_or(UseCaseError::NotFound { what: "order" })?;
                if attempt.may_be_committed() && event_factory.is_announced(unit).await? {
                    return Ok(order);
                }
                let actor = order.role_of(user);
                let action = step.action_of(actor)?;
                transition::apply(unit, &order, &action, actor, event_factory, 0).await
            })
        })
        .await
    }
}
