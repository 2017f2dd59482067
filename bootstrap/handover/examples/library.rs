//! A lending library: a command that may be refused, and two consumers of one event.
//!
//! You see that book 1 is lent once, although two readers ask for it, and that each consumer applies each event once.

mod common;

use std::time::Duration;

use handover::{Event, Outbox, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};

#[derive(Serialize, Deserialize, Event)]
#[event(name = "book.lent", aggregate = "book")]
struct BookLent {
    #[event(key)]
    book: i64,
    reader: String,
}

/// The command. A refused loan changes nothing and announces nothing.
async fn lend(
    pool: &SqlitePool,
    outbox: &Outbox<Sqlite>,
    book: i64,
    reader: &str,
) -> Result<bool, Box<dyn std::error::Error>> {
    let mut tx = pool.begin().await?;
    let update = sqlx::query("UPDATE books SET reader = ? WHERE id = ? AND reader IS NULL");
    if update.bind(reader).bind(book).execute(&mut *tx).await?.rows_affected() == 0 {
        return Ok(false);
    }
    outbox.enqueue(&mut tx, BookLent { book, reader: reader.to_owned() }).await?;
    tx.commit().await?;
    Ok(true)
}

async fn remind(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    let insert = sqlx::query("INSERT INTO reminders VALUES (?, ?)");
    insert.bind(event.book).bind(&event.reader).execute(connection).await?;
    Ok(())
}

async fn count(event: Event<BookLent>, connection: &mut SqliteConnection) -> handover::Result {
    let insert =
        sqlx::query("INSERT INTO loans VALUES (?, 1) ON CONFLICT (reader) DO UPDATE SET number = number + 1");
    insert.bind(&event.reader).execute(connection).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = "CREATE TABLE books (id INTEGER PRIMARY KEY, reader TEXT); \
                  INSERT INTO books (id) VALUES (1), (2), (3); \
                  CREATE TABLE reminders (book INTEGER, reader TEXT); \
                  CREATE TABLE loans (reader TEXT PRIMARY KEY, number INTEGER NOT NULL)";
    let (pool, _folder) = common::database(tables).await?;
    let outbox = Outbox::builder(pool.clone())
        .name("library")
        .consumer("reminders", in_transaction(remind))
        .consumer("statistics", in_transaction(count))
        .build()?;
    outbox.migrate().await?;
    let running = outbox.start().await?;

    for (book, reader) in [(1, "ann"), (2, "ben"), (3, "ann"), (1, "ben")] {
        let lent = lend(&pool, &outbox, book, reader).await?;
        println!("book {book} to {reader}: {}", if lent { "lent" } else { "already lent" });
    }

    common::wait_for(&pool, 3, "SELECT count(*) FROM reminders").await?;
    common::wait_for(&pool, 3, "SELECT coalesce(sum(number), 0) FROM loans").await?;
    let of_ann = "SELECT number FROM loans WHERE reader = 'ann'";
    let loans: i64 = sqlx::query_scalar(of_ann).fetch_one(&pool).await?;
    println!("3 reminders; ann has {loans} loans");
    running.stop(Duration::from_secs(10)).await?;
    Ok(())
}
