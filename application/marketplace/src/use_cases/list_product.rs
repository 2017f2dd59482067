//! A user puts a product on sale.

use std::sync::Arc;

use marketplace_domain::{Money, Product, ProductStatus, Title};

use super::UseCaseError;
use crate::idempotency::{Effect, with_answer};
use crate::ids::{require_free, with_own_ids};
use crate::mutants::{Mutant, planted};
use crate::ports::IdKind;
use crate::{App, CommandContext};

/// What is put on sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListProduct {
    /// Its title.
    pub title: Title,
    /// Its price.
    pub price: Money,
}

/// Puts a product on sale.
pub async fn list_product(
    app: &App,
    context: &CommandContext,
    command: ListProduct,
) -> Result<Product, UseCaseError> {
    with_own_ids(&app.ids, || list(app, context, command.clone())).await
}

async fn list(app: &App, context: &CommandContext, command: ListProduct) -> Result<Product, UseCaseError> {
    let seller = context.user().ok_or(UseCaseError::NotAllowed { what: "a signed-in user" })?;
    let now = app.now();
    let product = Product {
        id: app.ids.next(IdKind::Product).await?,
        tenant: context.tenant,
        seller,
        title: command.title,
        price: command.price,
        status: ProductStatus::OnSale,
        version: 1,
        create_time: now,
        update_time: now,
    };
    let ids = Arc::clone(&app.ids);
    with_answer(app, context, Effect::Creates, move |unit, attempt| {
        let (mut product, ids) = (product.clone(), Arc::clone(&ids));
        Box::pin(async move {
            if attempt.may_have_happened() {
                let found = unit.product_by_id(product.tenant, product.id).await?;
                if let Some(listed) = found.filter(|found| is_the_same_listing(found, &product)) {
                    if !planted(Mutant::RetryAfterUnknownWithANewId) {
                        return Ok(listed);
                    }
                    product.id = ids.next(IdKind::Product).await?;
                }
                require_free(unit, IdKind::Product, product.id.get()).await?;
            }
            unit.insert_product(&product).await?;
            Ok(product)
        })
    })
    .await
}

/// Whether a row is what this attempt wrote. A product has no event to prove it: it is the seller's own, with the same
/// title and price, made in the same microsecond. Two such listings could not be told apart by their seller either.
fn is_the_same_listing(found: &Product, ours: &Product) -> bool {
    let written =
        |product: &Product| (product.seller, product.title.clone(), product.price, product.create_time);
    written(found) == written(ours)
}
