//! A dead letter, and the operators' routes that replay it.
//!
//! You see the dead letter with its reason, the replay after the repair, the effect, and the audit log of the replay.
//! `operator_router` nests in the router of your service, and `Commands` in its command line; here the request is sent to
//! the router, and the arguments are passed to the parser directly. The lines that mount them are marked.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::http::request::Parts;
use clap::Parser as _;
use handover::cli::Commands;
use handover::http::Named;
use handover::{Data, Event, HandlerError, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::SqliteConnection;
use tower::ServiceExt;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "badge.issued", aggregate = "badge")]
struct BadgeIssued {
    #[event(key)]
    badge: i64,
}

/// The command line of the service.
#[derive(clap::Parser)]
enum Cli {
    #[command(flatten)] // mounts
    Operator(Commands), // mounts
}

/// Whether the photo was added.
struct Repaired(Arc<AtomicBool>);

async fn print(
    event: Event<BadgeIssued>,
    connection: &mut SqliteConnection,
    repaired: Data<Repaired>,
) -> handover::Result {
    if !repaired.0.load(Ordering::SeqCst) {
        return Err(HandlerError::permanent(format!("badge {} has no photo", event.badge)));
    }
    sqlx::query("INSERT INTO printed VALUES (?)").bind(event.badge).execute(connection).await?;
    Ok(())
}

/// Sends a request as the operator `ann` and returns the data of the response.
async fn send(
    router: &Router,
    method: &str,
    path: &str,
    body: &str,
) -> Result<Value, Box<dyn std::error::Error>> {
    let request = Request::builder().method(method).uri(path).header("x-operator", "ann");
    let request = request.header("content-type", "application/json").body(Body::from(body.to_owned()))?;
    let response = router.clone().oneshot(request).await?;
    let mut body: Value = serde_json::from_slice(&to_bytes(response.into_body(), 1_000_000).await?)?;
    Ok(body["data"].take())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (pool, _folder) = common::database("CREATE TABLE printed (badge INTEGER)").await?;
    let repaired = Arc::new(AtomicBool::new(false));
    let outbox = Outbox::builder(pool.clone())
        .data(Repaired(Arc::clone(&repaired)))
        .consumer("printer", in_transaction(print))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;
    let operator = |head: &Parts| Some(head.headers.get("x-operator")?.to_str().ok()?.to_owned()); // mounts
    let router = Router::new().nest("/admin/outbox", running.operator_router(Named(operator))); // mounts

    let mut tx = pool.begin().await?;
    outbox.enqueue(&mut tx, BadgeIssued { badge: 5 }).await?;
    tx.commit().await?;

    common::wait_for(&pool, 1, "SELECT count(*) FROM dead_letters").await?;
    let listed = send(&router, "GET", "/admin/outbox/dead-letters", "").await?;
    let parked = &listed["items"][0];
    println!("dead letter of {}: {}", parked["queue"], parked["reason"]);

    repaired.store(true, Ordering::SeqCst);
    let replay = r#"{"filter": {"queue": "handover.printer"}, "reason": "photo added"}"#;
    let replayed = send(&router, "POST", "/admin/outbox/dead-letters/replay", replay).await?;
    println!("replayed: {}", replayed["replayed"]);
    common::wait_for(&pool, 1, "SELECT count(*) FROM printed").await?;
    println!("badge 5 is printed");
    let Cli::Operator(commands) = Cli::parse_from(["badges", "audit", "list", "--changes"]); // mounts
    commands.run(&outbox).await?; // mounts
    running.stop(Duration::from_secs(10)).await?;
    Ok(())
}
