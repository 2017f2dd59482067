//! One event and its consumer: the shortest complete program.
//!
//! You see `ann has book 1`, printed by the consumer after the transaction has committed.

mod common;

use std::time::Duration;

use handover::{Event, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: i64,
    reader: String,
}

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    sqlx::query("INSERT INTO reminders VALUES (?)").bind(&event.reader).execute(connection).await?;
    println!("{} has book {}", event.reader, event.book);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (pool, _folder) = common::database("CREATE TABLE reminders (reader TEXT)").await?;
    let outbox = Outbox::builder(pool.clone()).consumer("reminders", in_transaction(remind)).build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let mut tx = pool.begin().await?; // your statements run on `&mut *tx`
    outbox.enqueue(&mut tx, BookLent { book: 1, reader: "ann".to_owned() }).await?;
    tx.commit().await?;

    common::wait_for(&pool, 1, "SELECT count(*) FROM reminders").await?;
    running.stop(Duration::from_secs(15)).await?;
    Ok(())
}
