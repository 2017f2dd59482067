//! A user puts a product on sale.

use std::sync::Arc;

use handover_domain::{Money, Product, ProductStatus, Title};

use super::UseCaseError;
use crate::idempotency::{Effect, with_answer};
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
            if attempt.may_have_happened()
                && let Some(listed) = unit.product_by_id(product.tenant, product.id).await?
            {
                if !planted(Mutant::RetryAfterUnknownWithANewId) {
                    return Ok(listed);
                }
                product.id = ids.next(IdKind::Product).await?;
            }
            unit.insert_product(&product).await?;
            Ok(product)
        })
    })
    .await
}
