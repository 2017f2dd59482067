//! `/api/v1/products`: list, look, hide, show.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use handover_application::use_cases::{self, ListProduct, Shelf};
use handover_domain::{Money, Product, ProductId, ProductStatus, Title, UserId};
use serde::Serialize;

use crate::body::{JsonBody, OptionalBody};
use crate::context::Caller;
use crate::edge::Edge;
use crate::envelope::{Answer, Done};
use crate::fields;
use crate::path::PathId;
use crate::query::Parameters;
use crate::views::rfc3339;

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new()
        .route("/", post(put_on_sale).get(page))
        .route("/{id}", get(one))
        .route("/{id}/off-shelf", post(off_shelf))
        .route("/{id}/on-shelf", post(on_shelf))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProductView {
    product_id: ProductId,
    title: Title,
    price: Money,
    status: ProductStatus,
    seller_id: UserId,
    #[serde(serialize_with = "rfc3339")]
    create_time: DateTime<Utc>,
}

impl From<Product> for ProductView {
    fn from(product: Product) -> ProductView {
        ProductView {
            product_id: product.id,
            title: product.title,
            price: product.price,
            status: product.status,
            seller_id: product.seller,
            create_time: product.create_time,
        }
    }
}

async fn put_on_sale(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    JsonBody(mut body): JsonBody,
) -> Answer {
    let title = body.required("title", fields::title);
    let price = body.required("price", fields::price);
    let (title, price) = body.finish(title.zip(price))?;
    let product = use_cases::list_product(&edge.app, &context, ListProduct { title, price }).await?;
    Done::created(&ProductView::from(product))
}

async fn page(State(edge): State<Arc<Edge>>, Caller(context): Caller, mut parameters: Parameters) -> Answer {
    let status = parameters.named("status");
    let (before, limit) = (parameters.cursor(), parameters.limit());
    parameters.finish()?;
    let page = use_cases::products(&edge.app, &context, status, before, limit).await?;
    Done::page(page.items.into_iter().map(ProductView::from).collect(), page.next)
}

async fn one(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(id): PathId<ProductId>,
) -> Answer {
    let product = use_cases::find_product(&edge.app, &context, id).await?;
    Done::ok(&ProductView::from(product))
}

async fn off_shelf(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(id): PathId<ProductId>,
    OptionalBody(body): OptionalBody,
) -> Answer {
    body.finish(Some(()))?;
    let product = use_cases::shelve_product(&edge.app, &context, id, Shelf::Off).await?;
    Done::ok(&ProductView::from(product))
}

async fn on_shelf(
    State(edge): State<Arc<Edge>>,
    Caller(context): Caller,
    PathId(id): PathId<ProductId>,
    OptionalBody(body): OptionalBody,
) -> Answer {
    body.finish(Some(()))?;
    let product = use_cases::shelve_product(&edge.app, &context, id, Shelf::On).await?;
    Done::ok(&ProductView::from(product))
}
