//! `/api/v1/ops`: the marketplace's routes for operators.

mod asset_grants;
mod findings;
mod gateway_reports;
mod orders;
mod reconciliation;
mod refunds;
mod users;

use std::sync::Arc;

use handover_http::OperatorRoutes;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::invoices;
use crate::edge::Edge;

/// The toolkit's routes and those of the marketplace.
pub(super) fn routes() -> OperatorRoutes<Arc<Edge>> {
    let routes = OpenApiRouter::new()
        .routes(routes!(asset_grants::deposit))
        .routes(routes!(asset_grants::grant))
        .routes(routes!(asset_grants::issue))
        .routes(routes!(gateway_reports::page))
        .routes(routes!(gateway_reports::close))
        .routes(routes!(invoices::generate))
        .routes(routes!(invoices::refund))
        .routes(routes!(orders::find))
        .routes(routes!(orders::one))
        .routes(routes!(orders::timeline))
        .routes(routes!(orders::payment))
        .routes(routes!(orders::refund, orders::refunds))
        .routes(routes!(refunds::page))
        .routes(routes!(refunds::one))
        .routes(routes!(refunds::retry))
        .routes(routes!(refunds::settle))
        .routes(routes!(reconciliation::report))
        .routes(routes!(reconciliation::repair))
        .routes(routes!(findings::page))
        .routes(routes!(findings::acknowledge))
        .routes(routes!(users::erase));
    OperatorRoutes::default().with(routes)
}
