//! The shipped program under faults: processes, broker and database killed, stopped, cut off from each other, crowded, and
//! slow clients; several processes that come and go; RabbitMQ on three nodes. What was acknowledged must hold, every event
//! must take effect exactly once and in order, and money and points must add up.
//!
//! Tests that need servers have `rabbitmq`, `mariadb` or `postgres` in their path. `HANDOVER_LONG=1` kills ten times as often
//! and holds recovery to what is promised of a quiet machine; tests that measure are ignored without `--include-ignored`, and
//! are to run one at a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod backlog;
mod canaries;
mod cluster;
mod contention;
mod figures;
mod foreign;
mod hang_ups;
mod kills;
mod lines;
mod locks;
mod overload;
mod partitions;
mod readiness;
mod shutdown;
mod start;
mod stopped;
mod strangers;
mod unsendable;

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use handover_tests::books::Books;
use handover_tests::client::{Answer, Api, Lost};
use handover_tests::long;
use handover_tests::market::{Ledger, Step};
use handover_tests::process::{Launch, eventually, fresh};

/// The longest wait for something that is due at once: far beyond what a busy machine takes for it.
const WITHIN: Duration = Duration::from_secs(60);

/// How soon work goes on once what it needs is back, on a quiet machine.
const GOES_ON_WITHIN: Duration = Duration::from_secs(10);

/// Every run on MariaDB and RabbitMQ, long ones on PostgreSQL and RabbitMQ too.
macro_rules! on_mariadb_first {
    ($($test:ident),* $(,)?) => {
        handover_tests::on_pairs!([$($test),*]: mariadb_and_rabbitmq MariaDbRabbitMq,
            #[ignore = "long: the same on another database"] postgres_and_rabbitmq PostgresRabbitMq);
    };
}
pub(crate) use on_mariadb_first;

/// Every run on PostgreSQL and RabbitMQ, long ones on MariaDB and RabbitMQ too.
macro_rules! on_postgres_first {
    ($($test:ident),* $(,)?) => {
        handover_tests::on_pairs!([$($test),*]: postgres_and_rabbitmq PostgresRabbitMq,
            #[ignore = "long: the same on another database"] mariadb_and_rabbitmq MariaDbRabbitMq);
    };
}
pub(crate) use on_postgres_first;

/// A tenth of so many, at least one, unless there is time for all.
fn share_of(all: usize) -> usize {
    if long() { all } else { all.div_ceil(10) }
}

/// A time as every engine reads it.
fn literal(time: DateTime<Utc>) -> String {
    time.format("'%Y-%m-%d %H:%M:%S%.6f'").to_string()
}

/// Unpaid orders are closed after six seconds, so that timeouts fall into the chaos too, and leftovers are found soon. Leases
/// are as shipped where there is time for them and takeovers are measured.
fn impatient(launch: Launch) -> Launch {
    let lease = if long() { "5s" } else { "2s" };
    launch
        .set("HANDOVER_OUTBOX__LEASE", lease)
        .set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1")
        .set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "1s")
        .set("HANDOVER_CONSUMER__SWEEP_INTERVAL", "1s")
        .set("HANDOVER_ASSET__LOCK_TIMEOUT_MINUTES", "0.5")
        .set("HANDOVER_ASSET__REAPER_INTERVAL", "1s")
        .set("HANDOVER_CONSISTENCY__INTERVAL", "2s")
        .set("HANDOVER_GATEWAY__SANDBOX_DELAY", "100ms")
        .set("HANDOVER_GATEWAY__RETRY_BASE", "500ms")
}

/// Places an order for a new product and waits for its effect; tells how long all of it took. No client of the load is one
/// of the two users.
async fn goes_on(api: &Api, books: &Books, ledger: &Ledger) -> Duration {
    const SELLER: i64 = 100;
    const BUYER: i64 = 101;
    let begun = Instant::now();
    let product = acknowledged(async || api.list_product(SELLER, "Proof").await).await.id("productId");
    ledger.product(product);
    let order = acknowledged(async || api.place_order(BUYER, product).await).await.id("orderId");
    ledger.order(order, Step::Placed);
    let effects = format!("SELECT count(*) FROM listing_changes WHERE order_id = {order}");
    eventually(WITHIN, async || match books.count(&effects).await? {
        0 => Err("the order took no effect".into()),
        _ => Ok(()),
    })
    .await;
    let took = begun.elapsed();
    assert!(!long() || took < GOES_ON_WITHIN, "{took:?}");
    took
}

/// Asks until the request is acknowledged.
async fn acknowledged(mut ask: impl AsyncFnMut() -> Result<Answer, Lost>) -> Answer {
    eventually(WITHIN, async || match ask().await {
        Ok(answer) if answer.done() => Ok(answer),
        Ok(answer) => Err(format!("{answer:?}").into()),
        Err(Lost(error)) => Err(error),
    })
    .await
}
