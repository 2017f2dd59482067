//! A handler that enqueues the next event in its own transaction.
//!
//! You see a chain of three steps: stay ended, invoice written, invoice sent. Each is committed together with the record of
//! the event before it, so a crash anywhere repeats no step and skips none.

mod common;

use std::time::Duration;

use handover::{Data, Enqueuer, Event, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqliteConnection};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "stay.ended", aggregate = "stay")]
struct StayEnded {
    #[event(key)]
    stay: i64,
    cents: i64,
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "invoice.written", aggregate = "invoice")]
struct InvoiceWritten {
    #[event(key)]
    invoice: i64,
}

async fn write(
    event: Event<StayEnded>,
    connection: &mut SqliteConnection,
    outbox: Data<Enqueuer<Sqlite>>,
) -> handover::Result {
    let insert = sqlx::query_scalar("INSERT INTO invoices (cents) VALUES (?) RETURNING id");
    let invoice = insert.bind(event.cents).fetch_one(&mut *connection).await?;
    println!("stay {}: invoice {invoice} written", event.stay);
    outbox.enqueue(connection, InvoiceWritten { invoice }).await?;
    Ok(())
}

async fn send(event: Event<InvoiceWritten>, connection: &mut SqliteConnection) -> handover::Result {
    let update = sqlx::query("UPDATE invoices SET is_sent = 1 WHERE id = ?");
    update.bind(event.invoice).execute(connection).await?;
    println!("invoice {} sent", event.invoice);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = "CREATE TABLE invoices (id INTEGER PRIMARY KEY, cents INTEGER, is_sent INTEGER DEFAULT 0)";
    let (pool, _folder) = common::database(tables).await?;
    let outbox = Outbox::builder(pool.clone())
        .consumer("invoices", in_transaction(write))
        .consumer("dispatch", in_transaction(send))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let mut tx = pool.begin().await?;
    outbox.enqueue(&mut tx, StayEnded { stay: 1, cents: 2_500 }).await?;
    tx.commit().await?;

    common::wait_for(&pool, 1, "SELECT count(*) FROM invoices WHERE is_sent = 1").await?;
    running.stop(Duration::from_secs(10)).await?;
    Ok(())
}
