//! A process that is stopped for longer than its leases and then resumes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::{Launch, eventually};
use handover_tests::random::RandomSource;
use handover_tests::servers::proxy::{Proxy, Traffic};
use handover_tests::servers::server_process::{resume, stop};
use handover_tests::snapshot::DatabaseSnapshot;

use crate::partitions::shared_by;
use crate::{WITHIN, on_postgres_first, share_of, with_short_timeouts};

on_postgres_first!(
    resumed_relay_settles_no_row_it_no_longer_owns,
    process_stopped_under_load_loses_and_duplicates_nothing,
);

const LOST: &str = "partitions were lost to another relay";

/// Waits until one relay owns all partitions. Returns that relay.
async fn owner(snapshot: &DatabaseSnapshot) -> String {
    eventually(WITHIN, async || {
        let owners = snapshot
            .table("SELECT owner, count(*) FROM outbox_partitions WHERE owner IS NOT NULL GROUP BY owner");
        match owners.await?.as_slice() {
            [only] if only[1].as_deref() == Some("64") => Ok(only[0].clone().unwrap()),
            other => Err(format!("expected one owner of all partitions, found {other:?}").into()),
        }
    })
    .await
}

/// All outbox rows, with the columns that the relay changes when it settles a row.
async fn rows(snapshot: &DatabaseSnapshot) -> Vec<Vec<Option<String>>> {
    let sql = "SELECT event_id, status, retry_count, next_retry_time, sent_time, update_time, last_error
         FROM outbox_events ORDER BY id";
    snapshot.table(sql).await.unwrap()
}

/// The relay is stopped between a confirm and the settlement of the row. When the relay resumes, this settlement must
/// be refused. The successor cannot publish meanwhile, so only the fence can prevent the settlement.
async fn resumed_relay_settles_no_row_it_no_longer_owns(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let port = deployment.vhost().server().port();
    let line = Proxy::start(port).await.unwrap();
    let other_line = Proxy::start(port).await.unwrap();
    let relay = |line: &Proxy| {
        let launch = deployment.launch_through(None, Some(line.port())).roles("relay");
        launch.set("HANDOVER_OUTBOX__CONFIRM_TIMEOUT", "10m").set("HANDOVER_OUTBOX__LEASE", "2s")
    };
    let shop = deployment.launch().roles("api,consumers,jobs").start().unwrap();
    let api = Api::of(&shop);
    let launch = relay(&line);
    let stopped = launch.start().unwrap();
    let first = owner(&snapshot).await;
    let products = list_products(&api, 20).await;
    place_orders(&api, &products[..1]).await;
    snapshot.wait_until_settled(WITHIN).await;

    // The events are confirmed by the server and applied by consumers, but the relay has not received the confirms.
    line.set(Traffic { pause_from_server: true, ..Traffic::default() });
    place_orders(&api, &products[1..]).await;
    let in_flight =
        "SELECT e.event_id FROM outbox_events e JOIN event_consume_log l ON l.event_id = e.event_id
         WHERE e.status = 'NEW' AND l.consumer = 'inventory' AND l.status = 'SUCCESS'";
    let in_flight = eventually(WITHIN, async || match snapshot.rows(in_flight).await? {
        none if none.is_empty() => Err("no event has been published and applied yet".into()),
        events => Ok(events),
    })
    .await;
    stop(stopped.id()).unwrap();
    line.set(Traffic { discard_to_server: true, ..Traffic::default() });

    other_line.set(Traffic { refuse: true, ..Traffic::default() });
    let successor = relay(&other_line).start().unwrap();
    let begun = Instant::now();
    eventually(WITHIN, async || match owner(&snapshot).await {
        same if same == first => Err("the stopped relay still owns the partitions".into()),
        _ => Ok(()),
    })
    .await;
    let taken_over = begun.elapsed();
    // The successor has tried to publish every row and does not write to the rows any more.
    let untried = "SELECT count(*) FROM outbox_events WHERE status = 'NEW'";
    eventually(WITHIN, async || match snapshot.count(untried).await? {
        0 => Ok(()),
        some => Err(format!("{some} events are still NEW").into()),
    })
    .await;
    let before = rows(&snapshot).await;

    resume(stopped.id()).unwrap();
    eventually(WITHIN, async || match launch.log().contains(LOST) || rows(&snapshot).await != before {
        true => Ok(()),
        false => Err("the resumed relay has not tried to settle its rows yet".into()),
    })
    .await;
    assert_eq!(rows(&snapshot).await, before, "the resumed relay settled rows that it no longer owned");
    for event in &in_flight {
        assert!(!was_sent(&launch, event), "{event} was settled by the relay that was stopped");
    }
    println!("{pair:?}: {} events in flight, partitions taken over after {taken_over:?}", in_flight.len());

    line.set(Traffic::default());
    line.cut();
    other_line.set(Traffic::default());
    snapshot.wait_until_settled(WITHIN).await;
    assert_eq!(snapshot.broken().await, Vec::<String>::new());
    let doubled = shop.launch().log().matches("事件已处理").count();
    assert!(
        doubled >= in_flight.len(),
        "{doubled} duplicate deliveries instead of at least {}",
        in_flight.len()
    );
    drop(successor);
}

async fn list_products(api: &Api, products: usize) -> Vec<i64> {
    let listed = (0..products).map(|_| async { api.list_product(1, "Lamp").await.unwrap().id("productId") });
    join_all(listed).await
}

/// Places the orders concurrently.
async fn place_orders(api: &Api, products: &[i64]) {
    let placed = products.iter().map(|product| async { api.place_order(2, *product).await.unwrap().done() });
    assert!(join_all(placed).await.into_iter().all(|done| done));
}

/// Whether a process has logged that it sent this event.
fn was_sent(launch: &Launch, event: &str) -> bool {
    let log = launch.log();
    log.lines().any(|line| line.contains("Event sent successfully") && line.contains(event))
}

/// Stops a process at a random time: during requests, publishing, effects, or transactions.
async fn process_stopped_under_load_loses_and_duplicates_nothing(pair: Pair) {
    let random = RandomSource::of_test(&format!("stopped on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let launch = || with_short_timeouts(deployment.launch());
    let processes = [launch().start().unwrap(), launch().start().unwrap()];
    let api = Api::of(&processes[0]);
    let apis = [api.clone(), api.for_server(&processes[1])];
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(&apis, &ledger, &random, 6, Duration::from_millis(20)).await;
    for round in 0..share_of(10) {
        shared_by(&snapshot, 2).await;
        ledger.wait_for_orders(20).await;
        tokio::time::sleep(random.millis(0..300)).await;
        let process = &processes[round % 2];
        stop(process.id()).unwrap();
        // The leases of the stopped relay end, and the other relay takes over its partitions with their events.
        let taken_over = shared_by(&snapshot, 1).await;
        ledger.wait_for_orders(5).await;
        resume(process.id()).unwrap();
        println!("{pair:?}: process stopped, partitions taken over after {taken_over:.1?}, process resumed");
    }
    ledger.wait_for_orders(20).await;
    load.stop().await;
    balance(&api, &snapshot, &ledger).await;
}
