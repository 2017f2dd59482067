//! Routes that every service on the toolkit can mount.

mod alerts;
mod archive;
mod dead_letters;
pub mod documentation;
pub mod health;
mod inspection;
pub mod metrics;
mod outbox;
mod webhooks;

use std::sync::Arc;

use axum::{Extension, Router};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::layers::Layers;
use crate::readiness::Readiness;

/// Builds the router of a process without an API: `/healthz`, `/readyz` and, if `render` is given, `/metrics`.
pub fn monitoring(layers: &Layers, readiness: Arc<dyn Readiness>, render: Option<metrics::Render>) -> Router {
    let health = Router::from(health::routes()).layer(Extension(readiness));
    let metrics = |render| Router::from(metrics::routes()).layer(Extension(render));
    let routes = health.merge(render.map_or_else(Router::new, metrics));
    layers.with_fallback_and_cors(layers.with_tracing(routes))
}

/// The toolkit's routes for operators. They require an [`OperatorCall`](crate::OperatorCall) in the extensions of the
/// request.
pub(crate) fn operations<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(outbox::page))
        .routes(routes!(outbox::one))
        .routes(routes!(outbox::redrive))
        .routes(routes!(archive::archive))
        .routes(routes!(archive::restore))
        .routes(routes!(outbox::blocked))
        .routes(routes!(outbox::release))
        .routes(routes!(dead_letters::page))
        .routes(routes!(dead_letters::replay))
        .routes(routes!(dead_letters::discard))
        .routes(routes!(inspection::queues))
        .routes(routes!(inspection::consumptions))
        .routes(routes!(inspection::stats))
        .routes(routes!(inspection::audit))
        .routes(routes!(alerts::page))
        .routes(routes!(alerts::acknowledge))
        .routes(routes!(alerts::history))
}

/// The routes of webhooks, described only: [`OperatorRoutes::of_webhooks`](crate::OperatorRoutes::of_webhooks) serves them.
pub fn webhooks<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    use self::webhooks::{deliveries, endpoints, secrets};
    OpenApiRouter::new()
        .routes(routes!(endpoints::list))
        .routes(routes!(secrets::create))
        .routes(routes!(endpoints::event_types))
        .routes(routes!(endpoints::show))
        .routes(routes!(endpoints::update))
        .routes(routes!(endpoints::delete))
        .routes(routes!(endpoints::enable))
        .routes(routes!(endpoints::disable))
        .routes(routes!(secrets::rotate))
        .routes(routes!(deliveries::test))
        .routes(routes!(deliveries::recover))
        .routes(routes!(deliveries::page))
        .routes(routes!(deliveries::one))
        .routes(routes!(deliveries::redeliver))
}
