//! Operators' routes in a service's own router.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use handover::http::Named;
use handover::{ALERTS, Alert, Event, HandlerError, Limit, Running, at_least_once};
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

/// The alert with this name.
async fn alert(service: &Router, name: &str) -> Result<Value, Box<dyn std::error::Error>> {
    let (_, page) = get(service, "/admin/outbox/alerts", Some("ann")).await?;
    let alerts = page["data"]["items"].as_array().or(page["items"].as_array()).ok_or(page.to_string())?;
    Ok(alerts.iter().find(|alert| alert["alert"] == name).ok_or(page.to_string())?.clone())
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the outbox runs in real time")]
async fn alert_of_a_dead_letter_is_active_with_the_limits_of_the_builder() -> TestResult {
    let library = Library::open().await?;
    let alerts = ALERTS.iter().map(|alert| match alert.name() {
        "queue-depth" => Alert { limit: Limit::Above(20_000), ..*alert },
        _ => *alert,
    });
    let builder = library.builder().consumer("mail", at_least_once(fail)).alerts(alerts);
    let (outbox, running) = library.start(builder).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    library.consumed("DEAD", 1).await?;
    let service = service(&running);
    assert_eq!(alert(&service, "dead-letters").await?["active"], false, "nobody evaluates the alerts");
    let _state = running.state_metrics(Duration::from_millis(20));
    let starting = async {
        while alert(&service, "dead-letters").await?["active"] != true {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        TestResult::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), starting).await??;
    let others = alert(&service, "queue-depth").await?;
    assert_eq!((&others["active"], &others["limit"]), (&false.into(), &"20000".into()));
    running.stop(STOP_LIMIT).await?;
    Ok(())
}
