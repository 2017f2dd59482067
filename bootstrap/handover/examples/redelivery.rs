//! Every event delivered a second time.
//!
//! You see that the second delivery has no effect: the goals are counted once. An operator redrives the events; a broker
//! may do the same at any time.

mod common;

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::http::request::Parts;
use handover::http::Named;
use handover::{Event, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::SqliteConnection;
use tower::ServiceExt;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "goal.scored", aggregate = "match")]
struct GoalScored {
    #[event(key)]
    game: i64,
    team: String,
}

async fn count(event: Event<GoalScored>, connection: &mut SqliteConnection) -> handover::Result {
    let update = sqlx::query("UPDATE scores SET goals = goals + 1 WHERE team = ?");
    update.bind(&event.team).execute(connection).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = "CREATE TABLE scores (team TEXT PRIMARY KEY, goals INTEGER NOT NULL); \
                  INSERT INTO scores VALUES ('red', 0), ('blue', 0)";
    let (pool, _folder) = common::database(tables).await?;
    let outbox = Outbox::builder(pool.clone()).consumer("scores", in_transaction(count)).build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    for team in ["red", "blue", "red"] {
        let mut tx = pool.begin().await?;
        outbox.enqueue(&mut tx, GoalScored { game: 1, team: team.to_owned() }).await?;
        tx.commit().await?;
    }
    common::wait_for(&pool, 3, "SELECT sum(goals) FROM scores").await?;

    let router = running.operator_router(Named(|_: &Parts| Some("ann".to_owned())));
    let redrive = Request::post("/outbox/redrive").header("content-type", "application/json");
    let response = router.oneshot(redrive.body(Body::from(r#"{"filter": {"status": "SENT"}}"#))?).await?;
    let body: Value = serde_json::from_slice(&to_bytes(response.into_body(), 1_000_000).await?)?;
    println!("{} events redriven", body["data"]["redriven"]);
    common::wait_for(&pool, 3, "SELECT count(*) FROM outbox_events WHERE status = 'SENT'").await?;
    let in_queues = "SELECT count(*) FROM outbox_broker_messages";
    common::wait_for(&pool, 0, in_queues).await?;

    let goals: Vec<(String, i64)> =
        sqlx::query_as("SELECT team, goals FROM scores ORDER BY team").fetch_all(&pool).await?;
    println!("{goals:?}");
    running.stop(Duration::from_secs(10)).await?;
    Ok(())
}
