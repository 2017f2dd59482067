//! What an event costs in your database: `enqueue` beside a plain `INSERT` of the same row.
//!
//! You see the median time of both, and their ratio: on SQLite in a temporary file, or in an empty database that you name
//! (`cargo run --release --example cost --features postgres,sqlite -- postgres://...`).

#[allow(dead_code, reason = "no event is applied")]
mod common;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use handover::{Event, Outbox};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Pairs of transactions that are measured, and those that go before.
const ROUNDS: usize = 2_000;
const WARM_UP: usize = 200;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "appointment.booked", aggregate = "appointment")]
struct AppointmentBooked {
    #[event(key)]
    appointment: Uuid,
    patient: String,
}

fn report(mut pairs: Vec<(Duration, Duration)>) {
    let mut median = |of: fn(&(Duration, Duration)) -> Duration| {
        pairs.sort_by_key(of);
        of(&pairs[pairs.len() / 2])
    };
    let (plain, enqueued) = (median(|pair| pair.0), median(|pair| pair.1));
    let ratio = enqueued.as_secs_f64() / plain.as_secs_f64();
    println!("plain insert {plain:?}, enqueue {enqueued:?}: {ratio:.2} times as long");
}

/// Measures both statements alternately, each in a transaction of its own. A macro, because the text of a statement and the
/// types that it binds depend on the engine.
macro_rules! measure {
    ($pool:expr, $insert:literal) => {{
        let pool = $pool;
        let outbox = Outbox::builder(pool.clone()).event::<AppointmentBooked>().build()?;
        outbox.migrate().await?;
        let mut pairs = Vec::new();
        let random = RandomState::new().build_hasher().finish();
        for round in 0..WARM_UP + ROUNDS {
            let appointment = Uuid::from_u64_pair(random, round as u64);
            let payload = serde_json::json!({ "appointment": appointment, "patient": "ann" }).to_string();
            let mut tx = pool.begin().await?;
            let begun = Instant::now();
            sqlx::query($insert)
                .bind(appointment.to_string())
                .bind(i64::MIN + round as i64)
                .bind(appointment.to_string())
                .bind(payload)
                .execute(&mut *tx)
                .await?;
            let plain = begun.elapsed();
            tx.commit().await?;

            let mut tx = pool.begin().await?;
            let begun = Instant::now();
            let booked = AppointmentBooked { appointment, patient: "ann".to_owned() };
            outbox.enqueue(&mut tx, booked).await?;
            pairs.push((plain, begun.elapsed()));
            tx.commit().await?;
        }
        report(pairs.split_off(WARM_UP));
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
                "INSERT INTO outbox_events (event_id, event_type, tenant_id, aggregate_type, aggregate_id, aggregate_key, \
                 aggregate_seq, payload, routing_key, create_time, update_time) VALUES (?, 'appointment.booked', 1, \
                 'appointment', ?, ?, 1, ?, 'appointment.booked', '2026-01-01T00:00:00.000000Z', \
                 '2026-01-01T00:00:00.000000Z')"
            );
        }
        #[cfg(feature = "postgres")]
        Some(url) if url.starts_with("postgres") => {
            measure!(
                sqlx::PgPool::connect(&url).await?,
                "INSERT INTO outbox_events (event_id, event_type, tenant_id, aggregate_type, aggregate_id, aggregate_key, \
                 aggregate_seq, payload, routing_key, create_time, update_time) VALUES ($1, 'appointment.booked', 1, \
                 'appointment', $2, $3, 1, $4, 'appointment.booked', now(), now())"
            );
        }
        #[cfg(feature = "mysql")]
        Some(url) if url.starts_with("mysql") => {
            measure!(
                sqlx::MySqlPool::connect(&url).await?,
                "INSERT INTO outbox_events (event_id, event_type, tenant_id, aggregate_type, aggregate_id, aggregate_key, \
                 aggregate_seq, payload, routing_key, create_time, update_time) VALUES (?, 'appointment.booked', 1, \
                 'appointment', ?, ?, 1, ?, 'appointment.booked', now(6), now(6))"
            );
        }
        Some(url) => return Err(format!("no feature of this build is for {url}").into()),
    }
    Ok(())
}
