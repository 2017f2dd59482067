//! Clients that disconnect at random times, on a pool of four connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::random::RandomSource;
use handover_tests::snapshot::DatabaseSnapshot;
use tokio::task::JoinSet;

use crate::WITHIN;
use crate::lost_responses::assert_no_idle_transaction;

handover_tests::on_rabbitmq!(disconnected_clients_leave_no_open_transaction);

const CLIENTS: usize = 32;
const BUYERS: i64 = 8;
const SELLER: i64 = 100;

/// Ids of the products and orders that responses acknowledged, and the number of requests whose client disconnected.
#[derive(Default)]
struct Acknowledged {
    products: BTreeSet<i64>,
    orders: BTreeSet<i64>,
    disconnected: usize,
}

async fn disconnected_clients_leave_no_open_transaction(pair: Pair) {
    let requests = if handover_tests::long() { 20_000 } else { 2_000 };
    let random = RandomSource::of_test(&format!("hang-ups on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let shop = deployment.launch().set("HANDOVER_DATABASE__CONNECTIONS", "4").start().unwrap();
    let api = Api::of(&shop);
    api.issue_tokens((1..=BUYERS).chain([SELLER]));
    let before = time_per_order(&api, 20).await;
    let begun = Instant::now();
    let mut sent = 0;
    let mut acknowledged = Acknowledged::default();
    loop {
        send_and_disconnect(&api, &random.stream(&format!("after {sent}")), requests, &mut acknowledged)
            .await;
        sent += requests;
        let Acknowledged { products, orders, disconnected } = &acknowledged;
        let acknowledged_requests = products.len() + orders.len();
        // Orders whose client disconnected before it received the response.
        let without_response = all(&snapshot, "orders").await.len().saturating_sub(20 + orders.len());
        println!(
            "{pair:?}: {sent} requests, {acknowledged_requests} acknowledged, {disconnected} disconnected, {without_response} orders without a response"
        );
        if *disconnected >= requests / 10 && acknowledged_requests >= requests / 10 && without_response > 20 {
            break;
        }
        assert!(
            begun.elapsed() < WITHIN * 5,
            "too few disconnected clients, acknowledged requests, or orders without a response"
        );
    }
    let took = begun.elapsed();
    // Orders can still be placed: the pool has not lost its connections.
    let after = time_per_order(&api, 20).await;
    assert_no_idle_transaction(&deployment, &snapshot).await;
    let Acknowledged { products, orders, .. } = &acknowledged;
    println!("  in {took:.1?}; an order took {before:.1?} before and {after:.1?} after");
    for (table, ids) in [("products", products), ("orders", orders)] {
        let existing = all(&snapshot, table).await;
        let missing: Vec<_> = ids.difference(&existing).collect();
        assert!(missing.is_empty(), "{table} were acknowledged and are missing: {missing:?}");
    }
    snapshot.wait_until_settled(WITHIN * 5).await;
    assert_eq!(snapshot.broken().await, Vec::<String>::new());
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200);
}

async fn all(snapshot: &DatabaseSnapshot, table: &str) -> BTreeSet<i64> {
    let ids = snapshot.rows(&format!("SELECT id FROM {table}")).await.unwrap();
    ids.iter().map(|id| id.parse().unwrap()).collect()
}

/// Places orders one after another. Returns the mean time per order.
async fn time_per_order(api: &Api, orders: u32) -> Duration {
    let begun = Instant::now();
    let mut took = Duration::ZERO;
    let mut placed = 0;
    while placed < orders {
        assert!(begun.elapsed() < WITHIN, "{placed} of {orders} orders were placed");
        let listed = api.list_product(SELLER, "Lamp").await.unwrap();
        let sent = Instant::now();
        if listed.done() && api.place_order(1, listed.id("productId")).await.unwrap().done() {
            took += sent.elapsed();
            placed += 1;
        }
    }
    took / orders
}

/// Sends requests with random client timeouts: the client disconnects before the response of about every third request.
async fn send_and_disconnect(api: &Api, random: &RandomSource, requests: usize, all: &mut Acknowledged) {
    let left = Arc::new(AtomicUsize::new(requests));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let api = api.clone();
        let left = Arc::clone(&left);
        let random = random.stream(&format!("client {client}"));
        clients.spawn(async move {
            let mut acknowledged = Acknowledged::default();
            let mut on_sale = Vec::new();
            let mut max_timeout = Duration::from_millis(50);
            let take_request =
                || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            while take_request().is_ok() {
                let buyer = 1 + client as i64 % BUYERS;
                let timeout = max_timeout.mul_f64(random.share());
                let product = on_sale.pop();
                let request = async {
                    match product {
                        Some(product) => api.place_order(buyer, product).await,
                        None => api.list_product(SELLER, "Lamp").await,
                    }
                };
                let result = tokio::time::timeout(timeout, request).await;
                // The timeout adapts to the speed of the machine: it grows after a disconnect and shrinks after a
                // success. A rejection does not change it, because a rejection is faster than a success.
                match &result {
                    Err(_) => max_timeout = max_timeout.mul_f64(1.1),
                    Ok(Ok(response)) if response.done() => max_timeout = max_timeout.mul_f64(0.95),
                    Ok(_) => {}
                }
                match (result, product) {
                    (Err(_), _) => acknowledged.disconnected += 1,
                    (Ok(Ok(response)), Some(_)) if response.done() => {
                        acknowledged.orders.insert(response.id("orderId"));
                    }
                    (Ok(Ok(response)), None) if response.done() => {
                        let listed = response.id("productId");
                        acknowledged.products.insert(listed);
                        on_sale.push(listed);
                    }
                    // On a busy machine some requests wait too long for a database connection and are rejected.
                    (Ok(Ok(response)), _) if response.outcome() == (503, "C0001") => {}
                    (Ok(other), _) => panic!("unexpected response: {other:?}"),
                }
            }
            acknowledged
        });
    }
    while let Some(one) = clients.join_next().await {
        let one = one.unwrap();
        all.products.extend(one.products);
        all.orders.extend(one.orders);
        all.disconnected += one.disconnected;
    }
}
