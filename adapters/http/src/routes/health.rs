//! `/healthz`: the process lives. `/readyz`: it can serve.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::json;

use crate::edge::Edge;
use crate::envelope::{Answer, Code, Done};
use crate::messages;
use crate::refusal::Refusal;

pub(super) fn routes() -> Router<Arc<Edge>> {
    Router::new().route("/healthz", get(lives)).route("/readyz", get(ready))
}

async fn lives() -> Answer {
    Done::ok(&json!({ "status": "up" }))
}

async fn ready(State(edge): State<Arc<Edge>>) -> Answer {
    let problems = edge.readiness.problems().await;
    if problems.is_empty() {
        return Done::ok(&json!({ "status": "ready" }));
    }
    let problems = serde_json::to_value(problems).map_err(|error| Refusal::fault(&error))?;
    Err(Refusal::new(Code::Away, messages::NOT_READY).with_data(json!({ "problems": problems })))
}
