//! Clients that hang up at random moments, on a pool of four connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use handover_tests::books::Books;
use handover_tests::chance::Chance;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use tokio::task::JoinSet;

use crate::WITHIN;
use crate::lines::nobody_is_left_in_a_transaction;

handover_tests::on_rabbitmq!(clients_that_hang_up_leave_nothing_behind);

const CLIENTS: usize = 32;
const BUYERS: i64 = 8;
const SELLER: i64 = 100;

/// What was acknowledged before its client hung up.
#[derive(Default)]
struct Acknowledged {
    products: BTreeSet<i64>,
    orders: BTreeSet<i64>,
    hung_up: usize,
}

async fn clients_that_hang_up_leave_nothing_behind(pair: Pair) {
    let requests = if handover_tests::long() { 20_000 } else { 2_000 };
    let chance = Chance::of_test(&format!("hang-ups on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let books = deployment.books().await;
    let shop = deployment.launch().set("HANDOVER_DATABASE__CONNECTIONS", "4").start().unwrap();
    let api = Api::of(&shop);
    api.sign_in((1..=BUYERS).chain([SELLER]));
    let before = orders_take(&api, 20).await;
    let (begun, mut asked, mut acknowledged) = (Instant::now(), 0, Acknowledged::default());
    loop {
        hang_up(&api, &chance.stream(&format!("after {asked}")), requests, &mut acknowledged).await;
        asked += requests;
        let Acknowledged { products, orders, hung_up } = &acknowledged;
        let answered = products.len() + orders.len();
        // Hung up after the order was placed.
        let unanswered = all(&books, "orders").await.len().saturating_sub(20 + orders.len());
        println!(
            "{pair:?}: {asked} requests, {answered} acknowledged, {hung_up} hung up, {unanswered} orders without an answer"
        );
        if *hung_up >= requests / 10 && answered >= requests / 10 && unanswered > 20 {
            break;
        }
        assert!(begun.elapsed() < WITHIN * 5, "too few clients hung up, or too many");
    }
    let took = begun.elapsed();
    // Four connections are still there for whoever waits for his answer.
    let after = orders_take(&api, 20).await;
    nobody_is_left_in_a_transaction(&deployment, &books).await;
    let Acknowledged { products, orders, .. } = &acknowledged;
    println!("  in {took:.1?}; an order took {before:.1?} before and {after:.1?} after");
    for (table, ids) in [("products", products), ("orders", orders)] {
        let there = all(&books, table).await;
        let gone: Vec<_> = ids.difference(&there).collect();
        assert!(gone.is_empty(), "{table} were acknowledged and are gone: {gone:?}");
    }
    books.wait_until_settled(WITHIN * 5).await;
    assert_eq!(books.broken().await, Vec::<String>::new());
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200);
}

async fn all(books: &Books, table: &str) -> BTreeSet<i64> {
    let ids = books.rows(&format!("SELECT id FROM {table}")).await.unwrap();
    ids.iter().map(|id| id.parse().unwrap()).collect()
}

/// So many orders, one after another: how long one takes.
async fn orders_take(api: &Api, orders: u32) -> Duration {
    let (begun, mut took, mut placed) = (Instant::now(), Duration::ZERO, 0);
    while placed < orders {
        assert!(begun.elapsed() < WITHIN, "{placed} of {orders} orders were placed");
        let listed = api.list_product(SELLER, "Lamp").await.unwrap();
        let asked = Instant::now();
        if listed.done() && api.place_order(1, listed.id("productId")).await.unwrap().done() {
            took += asked.elapsed();
            placed += 1;
        }
    }
    took / orders
}

/// So many requests, of clients whose patience ends at random: about every third before its answer.
async fn hang_up(api: &Api, chance: &Chance, requests: usize, all: &mut Acknowledged) {
    let left = Arc::new(AtomicUsize::new(requests));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (api, left, chance) =
            (api.clone(), Arc::clone(&left), chance.stream(&format!("client {client}")));
        clients.spawn(async move {
            let mut acknowledged = Acknowledged::default();
            let mut on_sale = Vec::new();
            let mut longest = Duration::from_millis(50);
            let taken = || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            while taken().is_ok() {
                let buyer = 1 + client as i64 % BUYERS;
                let patience = longest.mul_f64(chance.share());
                let product = on_sale.pop();
                let request = async {
                    match product {
                        Some(product) => api.place_order(buyer, product).await,
                        None => api.list_product(SELLER, "Lamp").await,
                    }
                };
                let answered = tokio::time::timeout(patience, request).await;
                // However fast the machine is: whoever hung up is more patient the next time, whoever was served less. A
                // refusal says nothing: it comes faster than any service.
                match &answered {
                    Err(_) => longest = longest.mul_f64(1.1),
                    Ok(Ok(answer)) if answer.done() => longest = longest.mul_f64(0.95),
                    Ok(_) => {}
                }
                match (answered, product) {
                    (Err(_), _) => acknowledged.hung_up += 1,
                    (Ok(Ok(answer)), Some(_)) if answer.done() => {
                        acknowledged.orders.insert(answer.id("orderId"));
                    }
                    (Ok(Ok(answer)), None) if answer.done() => {
                        let listed = answer.id("productId");
                        acknowledged.products.insert(listed);
                        on_sale.push(listed);
                    }
                    // On a busy machine some wait for one of the four connections until they are turned away.
                    (Ok(Ok(answer)), _) if answer.outcome() == (503, "C0001") => {}
                    (Ok(other), _) => panic!("a client that waited was not served: {other:?}"),
                }
            }
            acknowledged
        });
    }
    while let Some(one) = clients.join_next().await {
        let one = one.unwrap();
        all.products.extend(one.products);
        all.orders.extend(one.orders);
        all.hung_up += one.hung_up;
    }
}
