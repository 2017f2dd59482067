//! Routes that every service on the toolkit can mount.

mod alerts;
mod dead_letters;
pub mod documentation;
pub mod health;
mod inspection;
pub mod metrics;
mod outbox;
mod webhooks;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The toolkit's routes for operators. They require an [`OperatorCall`](crate::OperatorCall) in the extensions of the
/// request.
pub(crate) fn operations<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new()
        .routes(routes!(outbox::page))
        .routes(routes!(outbox::one))
        .routes(routes!(outbox::redrive))
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
