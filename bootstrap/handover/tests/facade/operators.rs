//! Operators' routes in a service's own router.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use handover::http::Named;
use handover::{Event, HandlerError, Running, at_least_once};
use serde_json::Value;
use sqlx::Sqlite;
use tower::ServiceExt as _;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult};

async fn fail(_: Event<BookLent>) -> handover::Result {
    Err(HandlerError::permanent("no such reader"))
}

fn service(running: &Running<Sqlite>) -> Router {
    let operator = |head: &Parts| Some(head.headers.get("x-operator")?.to_str().ok()?.to_owned());
    Router::new().nest("/admin/outbox", running.operator_router(Named(operator)))
}

async fn get(
    service: &Router,
    path: &str,
    operator: Option<&str>,
) -> Result<(StatusCode, Value), Box<dyn std::error::Error>> {
    let mut request = Request::get(path);
    if let Some(operator) = operator {
        request = request.header("x-operator", operator);
    }
    let response = service.clone().oneshot(request.body(Body::empty())?).await?;
    let status = response.status();
    Ok((status, serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await?)?))
}

#[tokio::test]
async fn operator_lists_events_and_others_are_refused() -> TestResult {
    let library = Library::open().await?;
    let builder = library.builder().consumer("mail", at_least_once(fail));
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("DEAD", 1).await?;
    let service = service(&running);
    let (status, _) = get(&service, "/admin/outbox/dead-letters", None).await?;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let (status, body) = get(&service, "/admin/outbox/outbox", Some("ann")).await?;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(body.to_string().contains("book.lent"), "{body}");
    running.stop(STOP_LIMIT).await?;
    Ok(())
}
