//! Use case: a user puts a product on sale.

use marketplace_domain::{Money, Product, ProductStatus, Title};

use super::{Ordering, UseCaseError};
use crate::claim::Call;
use crate::ids::{require_unused, with_unused_ids};
use crate::ports::IdKind;

/// The product to put on sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListProduct {
    pub title: Title,
    pub price: Money,
}

impl Ordering {
    /// Puts a product on sale.
    pub async fn list_product(
        &self,
        call: impl Into<Call<'_, Product>>,
        command: ListProduct,
    ) -> Result<Product, UseCaseError> {
        let call = call.into();
        with_unused_ids(&self.ids, || async {
            let seller = call.context.require_user()?;
            let now = self.tx.now();
            let product = Product {
                id: self.ids.next(IdKind::Product).await?,
                tenant: call.context.tenant,
                seller,
                title: command.title.clone(),
                price: command.price,
                status: ProductStatus::OnSale,
                version: 1,
                create_time: now,
                update_time: now,
            };
            call.run(&self.tx, product, |unit, product, attempt| {
                Box::pin(async move {
                    if attempt.is_repeated() {
                        let found = unit.product_by_id(product.tenant, product.id).await?;
                        if let Some(listed) = found.filter(|found| is_the_same_listing(found, product)) {
                            return Ok(listed);
                        }
                        require_unused(unit, IdKind::Product, product.id.get()).await?;
                    }
                    unit.insert_product(product).await?;
                    Ok(product.clone())
                })
            })
            .await
        })
        .await
    }
}

/// Whether a row was written by an earlier attempt of this command. A new product has no event that could prove this,
/// so seller, title, price and creation time (in microseconds) are compared. Products that are equal in these fields
/// are interchangeable for their seller.
fn is_the_same_listing(found: &Product, ours: &Product) -> bool {
    let written =
        |product: &Product| (product.seller, product.title.clone(), product.price, product.create_time);
    written(found) == written(ours)
}
