//! `/api/v1/products`: offer, list, take off sale, put back on sale.

use std::sync::Arc;

use handover_http::body::{EmptyBody, JsonBody, NoFields};
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use handover_http::views;
use handover_http::views::Time;
use marketplace::use_cases::{ListProduct, Shelf};
use marketplace_domain::{Money, Product, ProductId, ProductStatus, Title, UserId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::bodies;
use crate::command::Command;
use crate::context::Caller;
use crate::edge::Edge;
use crate::idempotency::{Created, Updated};
use crate::openapi::kinds;
use crate::path::PathId;
use crate::refusal::RouteResult;

type ProductPage = PageView<ProductView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .routes(routes!(put_on_sale, page))
        .routes(routes!(one))
        .routes(routes!(off_shelf))
        .routes(routes!(on_shelf))
}

views! {
    pub(super) ProductView as Product {
        product_id: ProductId,
        title: Title,
        price: Money,
        status: ProductStatus,
        seller_id: UserId,
        create_time: Time,
    }
}

impl From<Product> for ProductView {
    fn from(product: Product) -> ProductView {
        ProductView {
            product_id: product.id,
            title: product.title,
            price: product.price,
            status: product.status,
            seller_id: product.seller,
            create_time: Time(product.create_time),
        }
    }
}

/// Offers a product for sale.
#[utoipa::path(
    post,
    path = "/",
    operation_id = "listProduct",
    tag = "products",
    request_body = bodies::NewProduct,
    responses((status = 201, description = "The product, which is on sale", body = ProductView)),
)]
async fn put_on_sale(
    Command(edge, call): Command<Created<ProductView>>,
    JsonBody(body): JsonBody<bodies::NewProduct>,
) -> RouteResult {
    let command = body.command(|body, _| Some(ListProduct { title: body.title?, price: body.price? }))?;
    let product = edge.app.ordering.list_product(&call, command).await?;
    Done::created(&ProductView::from(product))
}

queries! {
    ProductQuery {
        status: ProductStatus = kinds::ProductStatus, "Only products with this status";
    }
}

/// Lists the products of the tenant, newest first.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "products",
    tag = "products",
    params(ProductQuery, Paging),
    responses((status = 200, description = "A page of products", body = ProductPage)),
)]
async fn page(Caller(edge, context): Caller, parameters: Parameters) -> RouteResult {
    let (ProductQuery { status }, before, limit) = parameters.page()?;
    let page = edge.app.queries.products(&context, status, before, limit).await?;
    Done::page(page, ProductView::from)
}

/// Returns a product.
#[utoipa::path(
    get,
    path = "/{id}",
    operation_id = "product",
    tag = "products",
    params(("id" = kinds::Id, Path, description = "The product")),
    responses(
        (status = 200, description = "The product", body = ProductView),
        (status = 404, description = "Product not found"),
    ),
)]
async fn one(
    Caller(edge, context): Caller,
    PathId(id): PathId<ProductId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let product = edge.app.queries.find_product(&context, id).await?;
    Done::ok(&ProductView::from(product))
}

/// Takes a product off sale.
///
/// Allowed for the seller.
#[utoipa::path(
    post,
    path = "/{id}/off-shelf",
    operation_id = "hideProduct",
    tag = "products",
    params(("id" = kinds::Id, Path, description = "The product")),
    request_body(content = Option<EmptyBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "The product, which is off sale", body = ProductView),
        (status = 403, description = "The product belongs to another seller"),
        (status = 404, description = "Product not found"),
        (status = 409, description = "The product is sold or already off sale"),
    ),
)]
async fn off_shelf(
    Command(edge, call): Command<Updated<ProductView>>,
    PathId(id): PathId<ProductId>,
    _: NoFields,
) -> RouteResult {
    let product = edge.app.ordering.shelve_product(&call, id, Shelf::Off).await?;
    Done::ok(&ProductView::from(product))
}

/// Puts a product back on sale.
///
/// Allowed for the seller.
#[utoipa::path(
    post,
    path = "/{id}/on-shelf",
    operation_id = "showProduct",
    tag = "products",
    params(("id" = kinds::Id, Path, description = "The product")),
    request_body(content = Option<EmptyBody>, content_type = "application/json"),
    responses(
        (status = 200, description = "The product, which is on sale", body = ProductView),
        (status = 403, description = "The product belongs to another seller"),
        (status = 404, description = "Product not found"),
        (status = 409, description = "The product is sold or already on sale"),
    ),
)]
async fn on_shelf(
    Command(edge, call): Command<Updated<ProductView>>,
    PathId(id): PathId<ProductId>,
    _: NoFields,
) -> RouteResult {
    let product = edge.app.ordering.shelve_product(&call, id, Shelf::On).await?;
    Done::ok(&ProductView::from(product))
}
