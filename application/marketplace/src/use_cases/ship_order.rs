//! Use case: the seller ships a paid order.

use marketplace_domain::{Order, OrderAction, OrderId, OrderRefusal, Shipment};

use super::{UseCaseError, transition};
use crate::{App, CommandContext};

/// Marks an order that the caller sold as shipped.
pub async fn ship_order(
    app: &App,
    context: &CommandContext,
    id: OrderId,
    shipment: Shipment,
) -> Result<Order, UseCaseError<OrderRefusal>> {
    transition::by_party(app, context, id, OrderAction::Ship(shipment)).await
}
