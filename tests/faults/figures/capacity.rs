//! The disk space that orders and their events take: the figures of `bootstrap/docs/capacity.md`.

use std::time::Duration;

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::servers::database::ServerKind;
use handover_tests::snapshot::DatabaseSnapshot;
use tokio::task::JoinSet;

handover_tests::on_pairs!([size_of_orders_and_events_is_printed]:
    #[ignore = "long: prints sizes of tables"] sqlite SqliteAlone,
    #[ignore = "long: prints sizes of tables"] mariadb MariaDbAlone,
    #[ignore = "long: prints sizes of tables"] postgres PostgresAlone);

const ORDERS: i64 = 2_000;
const CLIENTS: i64 = 8;
const BUYER: i64 = 2;

/// Tables of one event: its row, what consumers recorded, and its history.
const OF_EVENTS: [&str; 3] = ["outbox_events", "event_consume_log", "outbox_history"];

async fn size_of_orders_and_events_is_printed(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let launch = deployment.launch();
    let server = launch.start().unwrap();
    let snapshot = deployment.snapshot().await;
    let before = table_sizes(&snapshot, pair.database_server()).await;
    let api = Api::of(&server);
    api.issue_tokens(1..=BUYER);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let api = api.clone();
        clients.spawn(async move {
            for number in 0..ORDERS / CLIENTS {
                let title = format!("Desk lamp with a long arm, number {client}-{number}");
                let product = api.list_product(1, &title).await.unwrap().id("productId");
                let order = api.place_order(BUYER, product).await.unwrap().id("orderId");
                let payment = api.start_payment(BUYER, order).await.unwrap().id("paymentId");
                assert!(api.payment_succeeded(payment).await.unwrap().done());
                assert!(api.ship(1, order).await.unwrap().done());
                assert!(api.complete(BUYER, order).await.unwrap().done());
            }
        });
    }
    clients.join_all().await;
    eventually(Duration::from_secs(120), async || {
        let pending = "SELECT (SELECT count(*) FROM outbox_events WHERE status <> 'SENT') + \
                       (SELECT count(*) FROM outbox_broker_messages WHERE queue NOT LIKE '%delay%')";
        match snapshot.count(pending).await? {
            0 => Ok(()),
            left => Err(format!("{left} events are not applied").into()),
        }
    })
    .await;
    let events = snapshot.number("SELECT count(*) FROM outbox_events").await;
    let records = snapshot.number("SELECT count(*) FROM event_consume_log").await;
    let grown: Vec<(String, i64)> = table_sizes(&snapshot, pair.database_server())
        .await
        .into_iter()
        .map(|(table, bytes)| {
            let at_first = before.iter().find(|(name, _)| *name == table).map_or(0, |(_, bytes)| *bytes);
            (table, bytes - at_first)
        })
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let total = |of: &dyn Fn(&str) -> bool| {
        grown.iter().filter(|(table, _)| of(table)).map(|(_, bytes)| bytes).sum::<i64>()
    };
    let of_events = total(&|table| OF_EVENTS.contains(&table));
    println!(
        "{pair:?}: {} events and {} records of consumers per order",
        events as f64 / ORDERS as f64,
        records as f64 / ORDERS as f64
    );
    println!("  {} bytes per event with its records and history", of_events / events);
    println!("  {} bytes per order, {} of them its events", total(&|_| true) / ORDERS, of_events / ORDERS);
    for (table, bytes) in &grown {
        println!("  {table}: {} bytes per order", bytes / ORDERS);
    }
}

/// Bytes of each table with its indexes, greatest first.
pub(super) async fn table_sizes(
    snapshot: &DatabaseSnapshot,
    server: Option<ServerKind>,
) -> Vec<(String, i64)> {
    let (sizes, analyze) = match server {
        None => (
            "SELECT s.tbl_name, CAST(sum(d.pgsize) AS TEXT) FROM dbstat d JOIN sqlite_schema s ON s.name = d.name \
             GROUP BY s.tbl_name",
            "PRAGMA optimize",
        ),
        Some(ServerKind::MariaDb) => (
            "SELECT CAST(table_name AS CHAR), CAST(data_length + index_length AS CHAR) FROM information_schema.tables \
             WHERE table_schema = DATABASE()",
            "ANALYZE TABLE outbox_events, event_consume_log, orders",
        ),
        Some(ServerKind::Postgres) => (
            "SELECT relname::text, pg_total_relation_size(oid)::text FROM pg_class \
             WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
            "ANALYZE",
        ),
    };
    let _ = snapshot.table(analyze).await;
    let table = snapshot.table(sizes).await.unwrap();
    let mut sizes: Vec<(String, i64)> =
        table.into_iter().filter_map(|row| Some((row[0].clone()?, row[1].as_ref()?.parse().ok()?))).collect();
    sizes.sort_by_key(|(_, bytes)| -bytes);
    sizes
}
