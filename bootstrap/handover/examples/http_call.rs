//! A call over HTTP: at least once, with the event id as idempotency key.
//!
//! The receiver answers 503 twice. You see three requests with the same key, and one that is accepted.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use handover::{Data, Event, Outbox, at_least_once, ensure};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "ticket.sold", aggregate = "ticket")]
struct TicketSold {
    #[event(key)]
    ticket: i64,
    address: String,
}

struct Notices {
    client: reqwest::Client,
    url: String,
}

async fn notify(event: Event<TicketSold>, notices: Data<Notices>) -> handover::Result {
    let request = notices.client.post(&notices.url).header("Idempotency-Key", event.event_id());
    let answer = request.json(&serde_json::json!({ "to": event.address })).send().await?;
    // Any other status is an answer for reqwest, not an error.
    ensure!(answer.status().is_success(), "the receiver answered {}", answer.status());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = receiver().await?;
    // A redirect would repeat the request as GET.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let (pool, _folder) = common::database("").await?;
    let outbox = Outbox::builder(pool.clone())
        .data(Notices { client, url })
        .consumer("notices", at_least_once(notify))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let mut tx = pool.begin().await?;
    outbox.enqueue(&mut tx, TicketSold { ticket: 7, address: "ann@example.org".to_owned() }).await?;
    tx.commit().await?;

    let applied = "SELECT count(*) FROM event_consume_log WHERE status = 'SUCCESS'";
    common::wait_for(&pool, 1, applied).await?;
    println!("the event is applied");
    // Longer than an attempt may take.
    running.stop(Duration::from_secs(15)).await?;
    Ok(())
}

/// Starts the other system and returns the URL to call.
async fn receiver() -> Result<String, std::io::Error> {
    async fn accept(
        State(requests): State<Arc<AtomicU32>>,
        headers: HeaderMap,
        Json(notice): Json<serde_json::Value>,
    ) -> StatusCode {
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        let status = if number < 3 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT };
        println!("request {number} for {}, key {:?}: {status}", notice["to"], headers["idempotency-key"]);
        status
    }

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/notices", listener.local_addr()?);
    let router = Router::new().route("/notices", post(accept)).with_state(Arc::default());
    #[allow(clippy::disallowed_methods, reason = "the other system is no task of the service")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}
