//! Concurrent orders for the same product: only one succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use handover_tests::client::{Api, ApiResponse};
use handover_tests::market::{Ledger, Step};
use handover_tests::snapshot::DatabaseSnapshot;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::{WITHIN, eventually, fresh};

const SELLER: i64 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn product_is_sold_once_to_64_concurrent_buyers() {
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.issue_tokens((1..=64).chain([SELLER]));
    let product = api.list_product(SELLER, "The only one").await.unwrap().id("productId");
    let start = Arc::new(Barrier::new(64));
    let mut buyers = JoinSet::new();
    for buyer in 1..=64 {
        let api = api.clone();
        let start = Arc::clone(&start);
        buyers.spawn(async move {
            start.wait().await;
            api.place_order(buyer, product).await.unwrap()
        });
    }
    let responses: Vec<ApiResponse> = buyers.join_all().await;
    let mut counts = BTreeMap::new();
    for response in &responses {
        *counts.entry((response.status, response.code.as_str())).or_insert(0) += 1;
    }
    assert_eq!(counts, BTreeMap::from([((201, "00000"), 1), ((409, "A0409"), 63)]));
    let snapshot = DatabaseSnapshot::open(&launch.database()).await;
    assert_eq!(snapshot.number("SELECT count(*) FROM orders").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: 3,000 attempts take a minute on a busy machine"]
async fn each_of_1000_products_is_sold_at_most_once_to_200_concurrent_users() {
    const PRODUCTS: usize = 1_000;
    const USERS: i64 = 200;
    const BUYERS_PER_PRODUCT: usize = 3;
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.issue_tokens((1..=USERS).chain([SELLER]));
    let ledger = Arc::new(Ledger::default());
    let mut products = Vec::new();
    for group in (0..PRODUCTS).collect::<Vec<_>>().chunks(50) {
        let listed = join_all(group.iter().map(|n| {
            let api = &api;
            let title = format!("Lamp {n}");
            async move { api.list_product(SELLER, &title).await.unwrap().id("productId") }
        }));
        products.extend(listed.await);
    }
    products.iter().for_each(|product| ledger.product(*product));
    let products = Arc::new(products);
    let begun = Instant::now();
    let mut buyers = JoinSet::new();
    for (n, buyer) in (1..=USERS).enumerate() {
        let api = api.clone();
        let ledger = Arc::clone(&ledger);
        let products = Arc::clone(&products);
        buyers.spawn(async move {
            let each = PRODUCTS * BUYERS_PER_PRODUCT / 200;
            for attempt in 0..each {
                // Neighbouring buyers order the same products at about the same time.
                let product = products[(n / BUYERS_PER_PRODUCT * each + attempt) % PRODUCTS];
                let response = api.place_order(buyer, product).await.unwrap();
                match (response.status, response.code.as_str()) {
                    (201, "00000") => ledger.order(response.id("orderId"), Step::Placed),
                    (409, "A0409") => ledger.refused(),
                    unexpected => panic!("{unexpected:?}: {response:?}"),
                }
            }
        });
    }
    buyers.join_all().await;
    let took = begun.elapsed();
    let snapshot = DatabaseSnapshot::open(&launch.database()).await;
    let sold = snapshot.number("SELECT count(*) FROM products WHERE status = 'sold'").await;
    let orders = snapshot.number("SELECT count(*) FROM orders").await;
    println!(
        "{} attempts at {PRODUCTS} products in {took:?}: {sold} sold, {orders} orders",
        PRODUCTS * BUYERS_PER_PRODUCT
    );
    assert_eq!(sold, orders);
    assert_eq!(usize::try_from(orders).unwrap(), ledger.orders().len());
    assert_eq!(snapshot.number("SELECT count(DISTINCT product_id) FROM orders").await, orders);
    let pending = snapshot.number("SELECT count(*) FROM orders WHERE status = 'pending'").await;
    assert_eq!(
        pending, orders,
        "every order must be pending: none is paid, and no payment deadline has passed"
    );
    // Each order has one listing change.
    eventually(WITHIN, async || {
        let effects = snapshot.number("SELECT count(*) FROM listing_changes").await;
        if effects == orders {
            Ok(())
        } else {
            Err(format!("{effects} of {orders} listing changes exist").into())
        }
    })
    .await;
}
