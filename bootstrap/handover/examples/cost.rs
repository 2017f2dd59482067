//! What an event costs in your database: a transaction with `enqueue` beside one with a plain `INSERT` of the same row.
//!
//! Each transaction also inserts a row of its own. You see the median times of the transaction and of the statement that
//! stores the event, and their ratios: on SQLite in a temporary file, or in an empty database that you name
//! (`cargo run --release --example cost --features postgres,sqlite -- postgres://...`).

#[allow(dead_code, reason = "no event is applied")]
mod common;

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use handover::{Event, Outbox};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Transactions of each kind that are measured, and those that go before.
const ROUNDS: usize = 2_000;
const WARM_UP: usize = 200;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "appointment.booked", aggregate = "appointment")]
struct AppointmentBooked {
    #[event(key)]
    appointment: Uuid,
    patient: String,
}

/// Prints the medians of the transactions with a plain insert and of those with `enqueue`.
fn report(name: &str, times: [Vec<Duration>; 2]) {
    let [plain, enqueued] = times.map(|mut times| {
        times.drain(..WARM_UP);
        times.sort();
        times[ROUNDS / 2]
    });
    let ratio = enqueued.as_secs_f64() / plain.as_secs_f64();
    println!("{name}: plain insert {plain:?}, enqueue {enqueued:?}: {ratio:.2} times as long");
}

/// Measures both kinds of transactions alternately. A macro, because the text of a statement and the types that it binds depend
/// on the engine.
macro_rules! measure {
    ($pool:expr, $values:literal) => {{
        let pool = $pool;
        let insert = concat!(
            "INSERT INTO outbox_events (event_id, event_type, tenant_id, aggregate_type, aggregate_id, aggregate_key, \
             aggregate_seq, payload, routing_key, create_time, update_time) VALUES ",
            $values
        );
        let outbox = Outbox::builder(pool.clone()).event::<AppointmentBooked>().build()?;
        outbox.migrate().await?;
        sqlx::raw_sql("CREATE TABLE IF NOT EXISTS patients (name VARCHAR(64))").execute(&pool).await?;
        let mut transactions = [Vec::new(), Vec::new()];
        let mut statements = [Vec::new(), Vec::new()];
        let random = RandomState::new().hash_one(());
        for round in 0..2 * (WARM_UP + ROUNDS) {
            let appointment = Uuid::from_u64_pair(random, round as u64);
            let id = appointment.to_string();
            let payload = serde_json::json!({ "appointment": id, "patient": "ann" }).to_string();
            let begun = Instant::now();
            let mut tx = pool.begin().await?;
            sqlx::query("INSERT INTO patients VALUES ('ann')").execute(&mut *tx).await?;
            let stored = Instant::now();
            if round % 2 == 0 {
                let key = i64::MIN + round as i64;
                sqlx::query(insert).bind(&id).bind(key).bind(&id).bind(payload).execute(&mut *tx).await?;
            } else {
                outbox.enqueue(&mut tx, AppointmentBooked { appointment, patient: "ann".to_owned() }).await?;
            }
            statements[round % 2].push(stored.elapsed());
            tx.commit().await?;
            transactions[round % 2].push(begun.elapsed());
        }
        report("transaction", transactions);
        report("statement", statements);
    }};
}

#[allow(clippy::disallowed_methods, reason = "measures real time")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1) {
        None => {
            let (pool, _folder) = common::database("").await?;
            measure!(
                pool,
                "(?, 'appointment.booked', 1, 'appointment', ?, ?, 1, ?, 'appointment.booked', \
                 '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z')"
            );
        }
        #[cfg(feature = "postgres")]
        Some(url) if url.starts_with("postgres") => {
            measure!(
                sqlx::PgPool::connect(&url).await?,
                "($1, 'appointment.booked', 1, 'appointment', $2, $3, 1, $4, 'appointment.booked', now(), now())"
            );
        }
        #[cfg(feature = "mysql")]
        Some(url) if url.starts_with("mysql") => {
            measure!(
                sqlx::MySqlPool::connect(&url).await?,
                "(?, 'appointment.booked', 1, 'appointment', ?, ?, 1, ?, 'appointment.booked', now(6), now(6))"
            );
        }
        Some(url) => return Err(format!("no feature of this build is for {url}").into()),
    }
    Ok(())
}
