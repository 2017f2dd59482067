//! A web process that only enqueues, and a worker that publishes and applies.
//!
//! You see that nothing is applied before the worker starts. Here both are in one program; on a server they are processes of
//! their own, in any number.

mod common;

use std::time::Duration;

use handover::{Event, Outbox, in_transaction};
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

    // The web process: it declares what it enqueues, and has no background task, so it is not started.
    let web = Outbox::builder(pool.clone()).event::<ImageUploaded>().build()?;
    web.migrate().await?;
    for image in 1..=3 {
        let mut tx = pool.begin().await?;
        web.enqueue(&mut tx, ImageUploaded { image }).await?;
        tx.commit().await?;
    }
    let indexed: i64 = sqlx::query_scalar("SELECT count(*) FROM search").fetch_one(&pool).await?;
    println!("without a worker: {indexed} images indexed");

    // The worker.
    let worker = Outbox::builder(pool.clone()).consumer("search", in_transaction(index)).build()?;
    let running = worker.start().await?;
    common::wait_for(&pool, 3, "SELECT count(*) FROM search").await?;
    println!("with a worker: 3 images indexed");
    running.stop(Duration::from_secs(10)).await?;
    Ok(())
}
