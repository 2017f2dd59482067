//! SIGTERM and SIGINT: no new work is accepted, running work is finished, leases are released, and nothing is lost.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use handover_tests::client::Api;
use handover_tests::long;
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::tail;
use handover_tests::random::RandomSource;
use handover_tests::snapshot::DatabaseSnapshot;

use crate::{WITHIN, fresh, with_short_timeouts};

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_under_load_is_clean_and_loses_nothing() {
    let random = RandomSource::of_test("stops under load");
    let (_folder, launch) = fresh();
    let launch = with_short_timeouts(launch);
    let mut server = launch.start().unwrap();
    let api = Api::of(&server);
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(std::slice::from_ref(&api), &ledger, &random, 8, Duration::from_millis(2)).await;
    for signal in ["TERM", "INT", "TERM"] {
        ledger.wait_for_orders(30).await;
        // A shutdown that takes longer than ten seconds ends with another exit code.
        let (status, took) = server.signal(signal, WITHIN).unwrap();
        assert_eq!(status.code(), Some(0), "after SIG{signal}\n{}", tail(&launch.log()));
        println!("stopped by SIG{signal} within {took:.1?}");
        assert_all_released(&launch).await;
        server = launch.start().unwrap();
        api.set_server(&server);
    }
    load.stop().await;
    balance(&api, &DatabaseSnapshot::open(&launch.database()).await, &ledger).await;
}

/// Checks that a stopped process has released everything.
async fn assert_all_released(launch: &handover_tests::process::Launch) {
    let snapshot = DatabaseSnapshot::open(&launch.database()).await;
    for (what, sql) in [
        ("partitions are still owned", "SELECT count(*) FROM outbox_partitions WHERE owner IS NOT NULL"),
        ("relays are still registered", "SELECT count(*) FROM outbox_relays"),
        ("subscriptions are still open", "SELECT count(*) FROM outbox_broker_sessions"),
        (
            "deliveries are still claimed",
            "SELECT count(*) FROM outbox_broker_messages WHERE session_id IS NOT NULL",
        ),
        (
            "events are still being processed",
            "SELECT count(*) FROM event_consume_log WHERE status = 'PROCESSING'",
        ),
    ] {
        assert_eq!(snapshot.number(sql).await, 0, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_service_stops_cleanly_within_3_s() {
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let (status, took) = server.terminate(WITHIN).unwrap();
    println!("idle stop: {took:?}");
    assert_eq!(status.code(), Some(0), "{}", tail(&launch.log()));
    assert!(!long() || took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_do_not_prevent_shutdown() {
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let mut stuck = TcpStream::connect(server.base().trim_start_matches("http://")).unwrap();
    stuck.write_all(b"POST /api/v1/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{").unwrap();
    let mut idle = TcpStream::connect(server.base().trim_start_matches("http://")).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost").unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (status, took) = server.terminate(WITHIN).unwrap();
    println!("stop with two stuck clients: {took:?}, {status}");
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
}
