//! Use case: the buyer cancels an unpaid order.

use marketplace_domain::{CancelCause, Order, OrderAction, OrderId, OrderRefusal};

use super::{UseCaseError, transition};
use crate::{App, CommandContext};

/// Cancels the caller's order and releases its product.
pub async fn cancel_order(
    app: &App,
    context: &CommandContext,
    id: OrderId,
) -> Result<Order, UseCaseError<OrderRefusal>> {
    transition::by_party(app, context, id, OrderAction::Cancel(CancelCause::Buyer)).await
}
