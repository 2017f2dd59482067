//! Use case: the buyer confirms receipt of an order.

use marketplace_domain::{Order, OrderAction, OrderId, OrderRefusal};

use super::{UseCaseError, transition};
use crate::{App, CommandContext};

/// Completes the caller's shipped order.
pub async fn complete_order(
    app: &App,
    context: &CommandContext,
    id: OrderId,
) -> Result<Order, UseCaseError<OrderRefusal>> {
    transition::by_party(app, context, id, OrderAction::Complete).await
}
