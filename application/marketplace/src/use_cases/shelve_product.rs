//! Use case: a seller hides a product or shows it again.

use marketplace_domain::{Product, ProductAction, ProductId, ProductRefusal};

use super::{Ordering, UseCaseError};
use crate::claim::Call;

/// Whether a product is hidden or shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shelf {
    /// Hide the product.
    Off,
    /// Show the product.
    On,
}

impl Ordering {
    /// Hides or shows a product of the caller. After a commit of unknown outcome, a product that already has the new status
    /// is returned unchanged.
    pub async fn shelve_product(
        &self,
        call: impl Into<Call<'_, Product>>,
        id: ProductId,
        shelf: Shelf,
    ) -> Result<Product, UseCaseError<ProductRefusal>> {
        let call = call.into();
        let seller = call.context.require_user()?;
        let tenant = call.context.tenant;
        let now = self.tx.now();
        let action = match shelf {
            Shelf::Off => ProductAction::OffShelf,
            Shelf::On => ProductAction::OnShelf,
        };
        call.run(&self.tx, (), move |unit, (), attempt| {
            Box::pin(async move {
                let product = unit
                    .product_by_id(tenant, id)
                    .await?
                    .ok_or(UseCaseError::NotFound { what: "product" })?;
                if attempt.may_be_committed()
                    && product.status == action.step().1
                    && product.update_time == now
                {
                    return Ok(product);
                }
                let after = product.apply_as(action, seller, now)?;
                unit.advance_product(&after).await?.or_conflict("product")?;
                Ok(after)
            })
        })
        .await
    }
}
