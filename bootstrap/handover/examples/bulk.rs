//! Ten thousand events in one transaction.
//!
//! You see how long enqueueing and, from the commit on, applying took, and that every event was applied once.

mod common;

use std::time::{Duration, Instant};

use handover::{Event, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

const EVENTS: i64 = 10_000;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "price.changed", aggregate = "item")]
struct PriceChanged {
    #[event(key)]
    item: i64,
    cents: i64,
}

async fn write(event: Event<PriceChanged>, connection: &mut SqliteConnection) -> handover::Result {
    let insert = sqlx::query("INSERT INTO prices VALUES (?, ?)");
    insert.bind(event.item).bind(event.cents).execute(connection).await?;
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "measures real time")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (pool, _folder) =
        common::database("CREATE TABLE prices (item INTEGER PRIMARY KEY, cents INTEGER)").await?;
    let outbox = Outbox::builder(pool.clone()).consumer("prices", in_transaction(write)).build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let begun = Instant::now();
    let mut tx = pool.begin().await?;
    let changes = (1..=EVENTS).map(|item| PriceChanged { item, cents: item * 10 });
    outbox.enqueue_many(&mut tx, changes).await?;
    tx.commit().await?;
    println!("{EVENTS} events enqueued in {:?}", begun.elapsed());

    let begun = Instant::now();
    common::wait_for(&pool, EVENTS, "SELECT count(*) FROM prices").await?;
    println!("{EVENTS} events published and applied in {:?}", begun.elapsed());
    running.stop(Duration::from_secs(10)).await?;
    Ok(())
}
