//! A seller hides a product, or shows it again.

use marketplace_domain::{Product, ProductAction, ProductId};

use super::{UseCaseError, one_row};
use crate::idempotency::{Effect, with_answer};
use crate::{App, CommandContext};

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shelf {
    /// Hide it.
    Off,
    /// Show it.
    On,
}

/// Hides or shows a product of the caller's; on repetition after an unknown commit what is there already stands.
pub async fn shelve_product(
    app: &App,
    context: &CommandContext,
    id: ProductId,
    shelf: Shelf,
) -> Result<Product, UseCaseError> {
    let seller = context.user().ok_or(UseCaseError::NotAllowed { what: "a signed-in user" })?;
    let (tenant, now) = (context.tenant, app.now());
    let action = match shelf {
        Shelf::Off => ProductAction::OffShelf,
        Shelf::On => ProductAction::OnShelf,
    };
    with_answer(app, context, Effect::Moves, move |unit, attempt| {
        Box::pin(async move {
            let product =
                unit.product_by_id(tenant, id).await?.ok_or(UseCaseError::NotFound { what: "product" })?;
            if attempt.may_have_happened() && product.status == action.step().1 && product.update_time == now
            {
                return Ok(product);
            }
            let after = product.apply_as(action, seller, now)?;
            one_row(unit.advance_product(&after).await?, "product")?;
            Ok(after)
        })
    })
    .await
}
