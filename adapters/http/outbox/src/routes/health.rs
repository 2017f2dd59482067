//! Health checks. `/healthz`: liveness. `/readyz`: readiness.

use std::sync::Arc;

use axum::Extension;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::envelope::Code;
use crate::messages;
use crate::readiness::{Problem, Readiness};
use crate::refusal::Refusal;
use crate::response::{Done, RouteResult};

/// `/healthz` and `/readyz`. They require an `Arc<dyn Readiness>` in the extensions of the request.
pub fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// Status of the process.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct HealthView {
    status: &'static str,
}

/// Reasons why the process cannot serve.
#[derive(Serialize, ToSchema)]
#[schema(as = Problems)]
struct ProblemsView {
    problems: Vec<Problem>,
}

/// Checks whether the process is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "health",
    tag = "service",
    security(()),
    responses((status = 200, description = "The process is alive", body = HealthView)),
)]
async fn healthz() -> RouteResult {
    Done::ok(&HealthView { status: "up" })
}

/// Checks whether the process can serve requests.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readiness",
    tag = "service",
    security(()),
    responses(
        (status = 200, description = "The process is ready", body = HealthView),
        (status = 503, description = "The process is not ready", body = ProblemsView),
    ),
)]
async fn readyz(Extension(readiness): Extension<Arc<dyn Readiness>>) -> RouteResult {
    let problems = readiness.problems().await;
    if problems.is_empty() {
        return Done::ok(&HealthView { status: "ready" });
    }
    let problems = serde_json::value::to_raw_value(&ProblemsView { problems })
        .map_err(|error| Refusal::internal(&error))?;
    Err(Refusal::new(Code::UNAVAILABLE, messages::NOT_READY).with_data(problems))
}
