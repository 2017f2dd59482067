//! `/healthz`: the process lives. `/readyz`: it can serve.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::edge::Edge;
use crate::envelope::{Answer, Code, Done};
use crate::messages;
use crate::readiness::Problem;
use crate::refusal::Refusal;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(lives)).routes(routes!(ready))
}

/// How it is.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct HealthView {
    status: &'static str,
}

/// What keeps it from serving.
#[derive(Serialize, ToSchema)]
#[schema(as = Problems)]
struct ProblemsView {
    problems: Vec<Problem>,
}

/// Tells whether the process lives.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "health",
    tag = "service",
    security(()),
    responses((status = 200, description = "It lives", body = HealthView)),
)]
async fn lives() -> Answer {
    Done::ok(&HealthView { status: "up" })
}

/// Tells whether it can serve now.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readiness",
    tag = "service",
    security(()),
    responses(
        (status = 200, description = "It can", body = HealthView),
        (status = 503, description = "It cannot", body = ProblemsView),
    ),
)]

async fn ready(State(edge): State<Arc<Edge>>) -> Answer {
    let problems = edge.readiness.problems().await;
    if problems.is_empty() {
        return Done::ok(&HealthView { status: "ready" });
    }
    let problems = serde_json::to_value(ProblemsView { problems }).map_err(|error| Refusal::fault(&error))?;
    Err(Refusal::new(Code::Away, messages::NOT_READY).with_data(problems))
}
