//! Events of one aggregate from many tasks at once, with an attempt that fails in between.
//!
//! You see that the consumer applies them in the order of their commits: the balance that it writes last is the last one
//! that was committed, although the third event fails at its first attempt.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handover::{Data, Event, HandlerError, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "balance.changed", aggregate = "account")]
struct BalanceChanged {
    #[event(key)]
    account: i64,
    balance: i64,
}

/// Whether the third event has failed already.
struct FailedOnce(AtomicBool);

async fn project(
    event: Event<BalanceChanged>,
    connection: &mut SqliteConnection,
    failed: Data<FailedOnce>,
) -> handover::Result {
    if event.balance == 3 && !failed.0.swap(true, Ordering::SeqCst) {
        println!("balance 3: the first attempt fails");
        return Err(HandlerError::retryable("not this time"));
    }
    let insert = sqlx::query("INSERT INTO history (sequence, balance) VALUES (?, ?)");
    insert.bind(event.sequence()).bind(event.balance).execute(connection).await?;
    Ok(())
}

async fn deposit(
    pool: SqlitePool,
    outbox: Outbox<Sqlite>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // BEGIN IMMEDIATE: SQLite has one writer, and a reader that becomes a writer may be refused.
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let update = "UPDATE accounts SET balance = balance + 1 WHERE id = 1 RETURNING balance";
    let balance = sqlx::query_scalar(update).fetch_one(&mut *tx).await?;
    outbox.enqueue(&mut tx, BalanceChanged { account: 1, balance }).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL); \
                  INSERT INTO accounts VALUES (1, 0); \
                  CREATE TABLE history (number INTEGER PRIMARY KEY, sequence INTEGER, balance INTEGER)";
    let (pool, _folder) = common::database(tables).await?;
    let outbox = Outbox::builder(pool.clone())
        .data(FailedOnce(AtomicBool::new(false)))
        .consumer("history", in_transaction(project))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let mut deposits = tokio::task::JoinSet::new();
    for _ in 0..10 {
        deposits.spawn(deposit(pool.clone(), outbox.clone()));
    }
    while let Some(done) = deposits.join_next().await {
        done?.map_err(|error| error.to_string())?;
    }

    common::wait_for(&pool, 10, "SELECT count(*) FROM history").await?;
    let applied: Vec<i64> =
        sqlx::query_scalar("SELECT balance FROM history ORDER BY number").fetch_all(&pool).await?;
    println!("applied: {applied:?}");
    running.stop(Duration::from_secs(10)).await?;
    if applied.is_sorted() { Ok(()) } else { Err("out of order".into()) }
}
