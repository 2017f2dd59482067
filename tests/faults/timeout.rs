//! Unpaid orders are closed at their deadline: by the delayed message, and by the sweep when the message is lost.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_tests::books::Books;
use handover_tests::client::Api;
use handover_tests::process::Launch;
use sqlx::Row;

use crate::{beside_others, eventually, fresh};

const SELLER: i64 = 1;
const BUYER: i64 = 2;
/// `pending-minutes = 0.05`.
const DEADLINE: Duration = Duration::from_secs(3);

async fn order(api: &Api) -> i64 {
    let product = api.list_product(SELLER, "Desk lamp").await.unwrap().id("productId");
    api.place_order(BUYER, product).await.unwrap().id("orderId")
}

/// How long after its deadline the order was closed.
async fn closed_after_deadline(api: &Api, books: &Books, order: i64, within: Duration) -> TimeDelta {
    eventually(within, async || {
        let answer = api.order(BUYER, order).await.map_err(|lost| lost.0)?;
        match answer.data["status"].as_str() {
            Some("cancelled") => {
                assert_eq!(answer.data["cancelReason"], "timeout");
                Ok(())
            }
            other => Err(format!("order {order} is {other:?}").into()),
        }
    })
    .await;
    let row = sqlx::query("SELECT create_time, update_time FROM orders WHERE id = ?")
        .bind(order)
        .fetch_one(books.pool())
        .await
        .unwrap();
    let time = |column| row.get::<String, _>(column).parse::<DateTime<Utc>>().unwrap();
    let after = time("update_time") - time("create_time") - TimeDelta::from_std(DEADLINE).unwrap();
    assert!(after >= TimeDelta::zero(), "closed {after} early");
    let sql = "SELECT count(*) FROM products p JOIN orders o ON o.product_id = p.id WHERE p.status = 'on_sale' AND o.id";
    assert_eq!(books.number(&format!("{sql} = {order}")).await, 1, "the product is free again");
    after
}

fn three_seconds(launch: Launch) -> Launch {
    launch.set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.05")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_delayed_message_closes_an_unpaid_order_within_a_second_of_its_deadline() {
    let _turn = beside_others().await;
    let (_folder, launch) = fresh();
    // The sweep comes only every 30 s: what closes this order is the message.
    let launch = three_seconds(launch);
    let server = launch.start().unwrap();
    let (api, books) = (Api::of(&server), Books::open(&launch.database()).await);
    let mut latest = TimeDelta::zero();
    let mut orders = Vec::new();
    for _ in 0..5 {
        orders.push(order(&api).await);
        tokio::time::sleep(Duration::from_millis(130)).await;
    }
    for order in orders {
        latest = latest.max(closed_after_deadline(&api, &books, order, Duration::from_secs(10)).await);
    }
    println!("closed by message at most {} ms after the deadline", latest.num_milliseconds());
    assert!(latest < TimeDelta::seconds(1), "{latest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_closes_an_unpaid_order_whose_message_is_lost() {
    const SWEEP: TimeDelta = TimeDelta::seconds(2);
    let _turn = beside_others().await;
    let (_folder, launch) = fresh();
    let launch = three_seconds(launch).set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "2s");
    let server = launch.start().unwrap();
    let (api, books) = (Api::of(&server), Books::open(&launch.database()).await);
    let order = order(&api).await;
    eventually(Duration::from_secs(2), async || {
        let deleted =
            sqlx::query("DELETE FROM broker_messages WHERE queue LIKE 'order.timeout.delay.queue%'")
                .execute(books.pool())
                .await?;
        if deleted.rows_affected() == 1 { Ok(()) } else { Err("the message is not there yet".into()) }
    })
    .await;
    let after = closed_after_deadline(&api, &books, order, Duration::from_secs(10)).await;
    println!("closed by sweep {} ms after the deadline", after.num_milliseconds());
    assert!(after < SWEEP + TimeDelta::seconds(1), "{after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_passes_while_the_service_is_down_is_kept_after_the_start() {
    let _turn = beside_others().await;
    let (_folder, launch) = fresh();
    let launch = three_seconds(launch);
    let server = launch.start().unwrap();
    let (api, books) = (Api::of(&server), Books::open(&launch.database()).await);
    let order = order(&api).await;
    server.kill().unwrap();
    tokio::time::sleep(DEADLINE + Duration::from_millis(500)).await;
    let server = launch.start().unwrap();
    api.moved_to(&server);
    let after = closed_after_deadline(&api, &books, order, Duration::from_secs(5)).await;
    println!("closed {} ms after a deadline that passed while nothing ran", after.num_milliseconds());
}
