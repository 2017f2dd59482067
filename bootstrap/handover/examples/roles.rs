//! Three processes of one service: a web process that only enqueues, a worker that only consumes, and a relay between them.
//!
//! You see that nothing is indexed before the worker and the relay run. Here they are in one program, because an SQLite file
//! is used by one process; on a database server they are processes of their own, in any number.

mod common;

use std::time::Duration;

use handover::{Event, Outbox, Role, in_transaction};
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

#[derive(Serialize, Deserialize, Event)]
#[event(name = "image.uploaded", aggregate = "image")]
struct ImageUploaded {
    #[event(key)]
    image: i64,
}

async fn index(event: Event<ImageUploaded>, connection: &mut SqliteConnection) -> handover::Result {
    sqlx::query("INSERT INTO search VALUES (?)").bind(event.image).execute(connection).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (pool, _folder) = common::database("CREATE TABLE search (image INTEGER)").await?;
    let indexed = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM search");

    // The web process declares what it enqueues. Once started, it wakes the relay of the other process after each commit.
    let web = Outbox::builder(pool.clone()).event::<ImageUploaded>().roles([]).build()?;
    web.migrate().await?;
    let web_running = web.start().await?;
    for image in 1..=3 {
        let mut tx = pool.begin().await?;
        web.enqueue(&mut tx, ImageUploaded { image }).await?;
        tx.commit().await?;
    }

    // The worker only consumes. It is started before the first relay: its start declares its queue, and the broker returns an
    // event for which there is none.
    let worker = Outbox::builder(pool.clone())
        .consumer("search", in_transaction(index))
        .roles([Role::Consumers])
        .build()?;
    let worker_running = worker.start().await?;
    println!("without a relay: {} images indexed", indexed.fetch_one(&pool).await?);

    // The relay publishes every event, also of types that it does not declare.
    let relay = Outbox::builder(pool.clone()).roles([Role::Relay]).build()?;
    let relay_running = relay.start().await?;
    common::wait_for(&pool, 3, "SELECT count(*) FROM search").await?;
    println!("with a worker: 3 images indexed");
    for running in [relay_running, worker_running, web_running] {
        running.stop(Duration::from_secs(10)).await?;
    }
    Ok(())
}
