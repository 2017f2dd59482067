//! kill -9 at any moment loses nothing, doubles nothing, and leaves nothing to do by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_tests::books::Books;
use handover_tests::client::{Api, rand_like};
use handover_tests::market::{Ledger, Load, balance};

use crate::{beside_others, fresh};

/// The start after a crash must be ready within this long.
const READY_AGAIN_WITHIN: Duration = Duration::from_secs(5);
const QUIET_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn kills_at_random_moments_lose_nothing_and_double_nothing() {
    let kills = if handover_tests::long() { 60 } else { 6 };
    let _turn = beside_others().await;
    let (_folder, launch) = fresh();
    // Unpaid orders are closed after six seconds, so that timeouts fall into the chaos too.
    let launch = launch
        .set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1")
        .set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "2s")
        .set("HANDOVER_CONSUMER__SWEEP_INTERVAL", "1s");
    let mut server = launch.start().unwrap();
    let api = Api::of(&server);
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(&api, &ledger, 6, Duration::from_millis(5));
    let mut slowest = Duration::ZERO;
    for _ in 0..kills {
        tokio::time::sleep(Duration::from_millis(800 + rand_like() % 1_000)).await;
        server.kill().unwrap();
        let begun = Instant::now();
        server = launch.start().unwrap();
        slowest = slowest.max(begun.elapsed());
        api.moved_to(&server);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    load.stop().await;
    let books = Books::open(&launch.database()).await;
    books.wait_until_quiet(QUIET_WITHIN).await;
    println!("{kills} kills, ready again after {slowest:?} at most: {}", ledger.summary());
    println!("  in the database: {}", books.summary().await);
    balance(&books, &ledger).await;
    assert!(
        ledger.orders().len() > 20 * kills,
        "the load was too thin to prove anything: {}",
        ledger.summary()
    );
    assert!(slowest < READY_AGAIN_WITHIN, "{slowest:?}");
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200);
    let (status, _) = server.terminate(Duration::from_secs(10)).unwrap();
    assert_eq!(status.code(), Some(0));
}
