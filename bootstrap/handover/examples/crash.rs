//! A service that ends itself in the middle of its work, and shows after the next start that each loan has exactly one
//! reminder.
//!
//! Run it several times in one folder, with and without a fault; the file `crash.db` stays:
//!
//! ```text
//! FAULT=after_commit cargo run -p handover --features sqlite --example crash   # ends after the commit of the loan
//! FAULT=in_handler cargo run -p handover --features sqlite --example crash     # ends before the commit of the reminder
//! cargo run -p handover --features sqlite --example crash
//! ```

#![allow(clippy::disallowed_methods, reason = "the example waits in real time")]

use std::time::Duration;

use handover::{Event, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::{SqliteConnection, SqlitePool};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: i64,
}

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    sqlx::query("INSERT INTO reminders VALUES (?)").bind(event.book).execute(connection).await?;
    end_if("in_handler");
    Ok(())
}

/// Ends the process as `kill -9` does, if this fault is chosen.
fn end_if(fault: &str) {
    if std::env::var("FAULT").is_ok_and(|chosen| chosen == fault) {
        println!("the process ends here: {fault}");
        std::process::abort();
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePool::connect("sqlite:crash.db?mode=rwc").await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS loans (book INTEGER PRIMARY KEY AUTOINCREMENT); \
         CREATE TABLE IF NOT EXISTS reminders (book INTEGER)",
    )
    .execute(&pool)
    .await?;
    let outbox = Outbox::builder(pool.clone()).consumer("reminders", in_transaction(remind)).build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    let mut tx = pool.begin().await?;
    let book = sqlx::query("INSERT INTO loans DEFAULT VALUES").execute(&mut *tx).await?.last_insert_rowid();
    outbox.enqueue(&mut tx, BookLent { book }).await?;
    tx.commit().await?;
    end_if("after_commit");

    // After a crash this takes some seconds: the leases of the process that ended must expire.
    let (loans, reminders) = loop {
        let counts: (i64, i64) = sqlx::query_as(
            "SELECT (SELECT count(*) FROM loans), (SELECT count(DISTINCT book) FROM reminders)",
        )
        .fetch_one(&pool)
        .await?;
        if counts.0 == counts.1 {
            break counts;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    running.stop(Duration::from_secs(10)).await?;
    let repeated: i64 = sqlx::query_scalar("SELECT count(*) FROM reminders").fetch_one(&pool).await?;
    println!("{loans} loans, {reminders} with a reminder, {} reminders too many", repeated - reminders);
    Ok(())
}
