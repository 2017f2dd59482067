//! More than one of everything: several processes with any roles on one database and one broker, that come and go, and
//! RabbitMQ on three nodes. What was acknowledged must hold, every event must take effect exactly once and in order, and
//! what one owned is taken over when its lease ends.
//!
//! `HANDOVER_LONG=1` kills more nodes.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw, and real processes run on real time"
)]

mod cluster;
mod processes;

use std::time::{Duration, Instant};

use handover_tests::books::Books;
use handover_tests::client::{Answer, Api, Lost};
use handover_tests::market::{Ledger, Step};
use handover_tests::process::{Launch, eventually};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How soon work goes on once what it needs is back.
const GOES_ON_WITHIN: Duration = Duration::from_secs(10);

/// How long until all is quiet after the load ended.
const QUIET_WITHIN: Duration = Duration::from_secs(60);

/// As many of these as run side by side: they mostly wait for leases and servers, but more would measure the machine.
const SIDE_BY_SIDE: u32 = 2;

static MACHINE: Semaphore = Semaphore::const_new(SIDE_BY_SIDE as usize);

/// A turn.
async fn turn() -> SemaphorePermit<'static> {
    MACHINE.acquire().await.unwrap()
}

/// A turn for what fills the machine: nothing else of ours runs.
async fn alone() -> SemaphorePermit<'static> {
    MACHINE.acquire_many(SIDE_BY_SIDE).await.unwrap()
}

/// Unpaid orders are closed after six seconds, so that timeouts fall into the chaos too.
fn impatient(launch: Launch) -> Launch {
    launch
        .set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1")
        .set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "2s")
        .set("HANDOVER_CONSUMER__SWEEP_INTERVAL", "1s")
}

/// Who sells and who buys what shows that work goes on; no client of the load is one of them.
const SELLER: i64 = 100;
const BUYER: i64 = 101;

/// Lists a product, orders it and waits for the effect of that; tells how long all of it took.
async fn goes_on(api: &Api, books: &Books, ledger: &Ledger) -> Duration {
    let begun = Instant::now();
    let product = taken(async || api.list_product(SELLER, "Proof").await).await.id("productId");
    ledger.product(product);
    let order = taken(async || api.place_order(BUYER, product).await).await.id("orderId");
    ledger.order(order, Step::Placed);
    let effects = format!("SELECT count(*) FROM listing_changes WHERE order_id = {order}");
    eventually(GOES_ON_WITHIN * 3, async || match books.count(&effects).await? {
        0 => Err("the order took no effect".into()),
        _ => Ok(()),
    })
    .await;
    begun.elapsed()
}

/// Asks until it is acknowledged.
async fn taken(mut ask: impl AsyncFnMut() -> Result<Answer, Lost>) -> Answer {
    eventually(GOES_ON_WITHIN * 3, async || match ask().await {
        Ok(answer) if answer.done() => Ok(answer),
        Ok(answer) => Err(format!("{answer:?}").into()),
        Err(Lost(error)) => Err(error),
    })
    .await
}
