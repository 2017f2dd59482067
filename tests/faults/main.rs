//! The shipped program under faults: processes, broker and database are killed, stopped and disconnected; overload;
//! slow clients; several processes that start and stop; RabbitMQ on three nodes. Acknowledged changes must not be lost,
//! every event must take effect exactly once and in the order of its aggregate, and the sums of money and points must
//! be correct.
//!
//! Tests that need servers have `rabbitmq`, `mariadb` or `postgres` in their path. `HANDOVER_LONG=1` repeats the faults
//! more often and enforces the recovery times guaranteed for an otherwise idle machine. Tests that measure are ignored
//! without `--include-ignored` and must run one at a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a failed check panics with the observed value, and real processes run in real time"
)]

mod alerts;
mod archive;
mod backlog;
mod canaries;
mod cluster;
mod contention;
mod disconnects;
mod figures;
mod foreign;
mod invoices;
mod kills;
mod leader;
mod locks;
mod lost_responses;
mod overload;
mod partitions;
mod readiness;
mod restore;
mod shutdown;
mod slow_clients;
mod start;
mod stopped;
mod unsendable;
mod upgrade;
mod webhooks;

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use handover_tests::client::{Api, ApiResponse, NoResponse};
use handover_tests::long;
use handover_tests::market::{Ledger, Step};
use handover_tests::process::{Launch, eventually, fresh};
use handover_tests::snapshot::DatabaseSnapshot;

/// Timeout for something that is due immediately; far longer than a busy machine needs.
const WITHIN: Duration = Duration::from_secs(60);

/// Maximum recovery time on an otherwise idle machine after a dependency is available again.
const RECOVERY_WITHIN: Duration = Duration::from_secs(10);

/// Generates tests for MariaDB and RabbitMQ, and in long runs also for PostgreSQL and RabbitMQ.
macro_rules! on_mariadb_first {
    ($($test:ident),* $(,)?) => {
        handover_tests::on_pairs!([$($test),*]: mariadb_and_rabbitmq MariaDbRabbitMq,
            #[ignore = "long: CI runs this test on MariaDB"] postgres_and_rabbitmq PostgresRabbitMq);
    };
}
pub(crate) use on_mariadb_first;

/// Generates tests for PostgreSQL and RabbitMQ, and in long runs also for MariaDB and RabbitMQ.
macro_rules! on_postgres_first {
    ($($test:ident),* $(,)?) => {
        handover_tests::on_pairs!([$($test),*]: postgres_and_rabbitmq PostgresRabbitMq,
            #[ignore = "long: CI runs this test on PostgreSQL"] mariadb_and_rabbitmq MariaDbRabbitMq);
    };
}
pub(crate) use on_postgres_first;

/// Held by a test while it changes the limit of message sizes, which belongs to the RabbitMQ server that the tests share.
static MESSAGE_SIZE_LIMIT: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns a tenth of `all`, rounded up, or `all` with HANDOVER_LONG.
fn share_of(all: usize) -> usize {
    if long() { all } else { all.div_ceil(10) }
}

/// A time as an SQL literal for MariaDB and PostgreSQL.
fn literal(time: DateTime<Utc>) -> String {
    time.format("'%Y-%m-%d %H:%M:%S%.6f'").to_string()
}

/// Settings with short timeouts: unpaid orders are closed after six seconds, so that timeouts happen during the faults,
/// and interrupted events are found soon. With HANDOVER_LONG, takeovers are measured, so leases last 5 s.
fn with_short_timeouts(launch: Launch) -> Launch {
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

/// Lists a product, places an order for it and waits for the effect of the order. Returns how long that took. The
/// seller and the buyer of this order take no part in the generated load.
async fn assert_progress(api: &Api, snapshot: &DatabaseSnapshot, ledger: &Ledger) -> Duration {
    const SELLER: i64 = 100;
    const BUYER: i64 = 101;
    let begun = Instant::now();
    let product = acknowledged(async || api.list_product(SELLER, "Proof").await).await.id("productId");
    ledger.product(product);
    let order = acknowledged(async || api.place_order(BUYER, product).await).await.id("orderId");
    ledger.order(order, Step::Placed);
    let effects = format!("SELECT count(*) FROM listing_changes WHERE order_id = {order}");
    eventually(WITHIN, async || match snapshot.count(&effects).await? {
        0 => Err("the order has no effect yet".into()),
        _ => Ok(()),
    })
    .await;
    let took = begun.elapsed();
    assert!(!long() || took < RECOVERY_WITHIN, "{took:?}");
    took
}

/// Repeats a request until it is acknowledged.
async fn acknowledged(mut send: impl AsyncFnMut() -> Result<ApiResponse, NoResponse>) -> ApiResponse {
    eventually(WITHIN, async || match send().await {
        Ok(response) if response.done() => Ok(response),
        Ok(response) => Err(format!("{response:?}").into()),
        Err(NoResponse(error)) => Err(error),
    })
    .await
}
