//! Code around every call of a handler: here the number of calls and failures of each consumer.
//!
//! You see two calls of the consumer, because its first attempt fails, and one failure.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use handover::{Applied, BoxFuture, Call, Data, Event, HandlerError, Layer, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "seat.reserved", aggregate = "seat")]
struct SeatReserved {
    #[event(key)]
    seat: i64,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU32,
    failures: AtomicU32,
}

struct Counting(Arc<Counts>);

impl Layer for Counting {
    fn around<'a>(
        &self,
        _: Call<'_>,
        call: BoxFuture<'a, handover::Result<Applied>>,
    ) -> BoxFuture<'a, handover::Result<Applied>> {
        let counts = Arc::clone(&self.0);
        Box::pin(async move {
            counts.calls.fetch_add(1, Ordering::SeqCst);
            let outcome = call.await;
            if outcome.is_err() {
                counts.failures.fetch_add(1, Ordering::SeqCst);
            }
            outcome
        })
    }
}

/// Whether the printer has failed already.
struct FailedOnce(AtomicBool);

async fn print(
    event: Event<SeatReserved>,
    connection: &mut SqliteConnection,
    failed: Data<FailedOnce>,
) -> handover::Result {
    if !failed.0.swap(true, Ordering::SeqCst) {
        return Err(HandlerError::retryable("the printer is out of paper"));
    }
    sqlx::query("INSERT INTO tickets VALUES (?)").bind(event.seat).execute(connection).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (pool, _folder) = common::database("CREATE TABLE tickets (seat INTEGER)").await?;
    let counts = Arc::new(Counts::default());
    let outbox = Outbox::builder(pool.clone())
        .layer(Counting(Arc::clone(&counts)))
        .data(FailedOnce(AtomicBool::new(false)))
        .consumer("tickets", in_transaction(print))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let mut tx = pool.begin().await?;
    outbox.enqueue(&mut tx, SeatReserved { seat: 12 }).await?;
    tx.commit().await?;

    common::wait_for(&pool, 1, "SELECT count(*) FROM tickets").await?;
    running.stop(Duration::from_secs(10)).await?;
    let (calls, failures) = (counts.calls.load(Ordering::SeqCst), counts.failures.load(Ordering::SeqCst));
    println!("{calls} calls, {failures} failed");
    Ok(())
}
