//! Ends of orders without the buyer: sellers decline them (004: the merchant refuses an order), the service completes them;
//! and races for one order.

use futures_util::future::join_all;
use handover_tests::deployment::Pair;
use serde_json::{Value, json};

use super::purses::With;
use super::shop::{BUYER, SELLER, Shop};

/// Delay of the sandbox gateway, which then reports no refund during the test: the test acts as the gateway.
const SLOW_SANDBOX: (&str, &str) = ("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h");

impl Shop {
    async fn as_seller(&self, order: i64, step: &str, body: Value) -> Value {
        self.api.post(SELLER, &format!("/api/v1/orders/{order}/{step}"), body).await.unwrap().value()
    }

    /// Statuses of which the buyer is notified about this order, oldest first.
    async fn notified_statuses(&self, order: i64) -> Vec<String> {
        self.rows(&format!(
            "SELECT new_status FROM notifications WHERE order_id = {order} AND user_id = {BUYER} ORDER BY id"
        ))
        .await
    }
}

async fn declined_orders_return_assets_and_their_products_go_where_the_seller_says(pair: Pair) {
    let shop = Shop::open(pair, &[SLOW_SANDBOX]).await;
    for (off_shelf, status) in [(false, "on_sale"), (true, "off_shelf")] {
        let coupon = shop.fill_purses().await;
        let before = shop.purses(BUYER).await;
        let pending = shop.order_with(With { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
        shop.locked(pending, 3).await;
        let declined = shop.as_seller(pending, "cancel", json!({"offShelf": off_shelf})).await;
        assert_eq!((&declined["status"], &declined["cancelReason"]), (&json!("cancelled"), &json!("seller")));
        shop.settled().await;
        assert_eq!(shop.purses(BUYER).await, before);
        let paid = shop.order_with(With { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
        shop.locked(paid, 3).await;
        shop.pay_rest(paid).await;
        shop.settled().await;
        let body = json!({"reason": "sold elsewhere", "offShelf": off_shelf});
        let refund = shop.as_seller(paid, "refunds", body).await["refundId"].as_i64().unwrap();
        shop.assert_cannot_ship(paid).await;
        shop.api.refund_reported(refund, "SUCCESS").await.unwrap().value();
        shop.settled().await;
        assert_eq!(shop.purses(BUYER).await, before);
        assert_eq!(shop.coupon_status(coupon).await, "AVAILABLE");
        for (order, status_after) in [(pending, "cancelled"), (paid, "refunded")] {
            assert_eq!(shop.order_field(order, "status").await, status_after);
            let product = shop.order_field(order, "productId").await.as_i64().unwrap();
            assert_eq!(shop.product_field(product, "status").await, status);
            assert_eq!(shop.notified_statuses(order).await, [status_after]);
        }
    }
    assert_eq!(shop.rows("SELECT step FROM buyer_credit_changes").await, Vec::<String>::new());
    shop.assert_invariants_except(&[]).await;
}

/// SQL that makes an order older than its deadline.
fn overdue(order: i64) -> String {
    format!("UPDATE orders SET create_time = '2026-01-01 00:00:00.000000' WHERE id = {order}")
}

/// 64 concurrent requests: the seller declines, the buyer cancels, the gateway reports the payment, and the service closes
/// the order, whose deadline has passed. One of them wins; the money of a payment that loses is refunded.
async fn one_of_64_concurrent_declines_cancellations_payments_and_timeouts_wins(pair: Pair) {
    let settings =
        [("HANDOVER_GATEWAY__SANDBOX_DELAY", "50ms"), ("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "50ms")];
    let shop = Shop::open(pair, &settings).await;
    shop.deposit(BUYER, 100_000).await;
    for round in 0..3 {
        let order = shop.order_with(With { wallet: 2_000, ..With::default() }).await;
        shop.locked(order, 1).await;
        let payment = shop.api.start_payment(BUYER, order).await.unwrap().value();
        let id = payment["paymentId"].as_i64().unwrap();
        let path = format!("/api/v1/orders/{order}/cancel");
        let requests = (0..64).map(|number| {
            let (shop, path, amount) = (&shop, &path, &payment["amount"]);
            async move {
                let api = &shop.api;
                let answer = match number + round {
                    // From here on, the sweep closes the order.
                    16 => {
                        shop.snapshot.change(&overdue(order)).await;
                        return None;
                    }
                    number if number % 3 == 0 => api.post(SELLER, path, json!({"offShelf": true})).await,
                    number if number % 3 == 1 => api.cancel(BUYER, order).await,
                    _ => api.payment_of_reported(id, amount, "SUCCESS").await,
                };
                Some(answer.unwrap())
            }
        });
        let answers = join_all(requests).await;
        let cancelled = answers.iter().flatten().filter(|it| it.data["cancelReason"].is_string()).count();
        assert!(cancelled <= 1, "{cancelled} cancellations of order {order} succeeded");
        shop.settled().await;
        let status = shop.order_field(order, "status").await;
        let reason = shop.order_field(order, "cancelReason").await;
        assert_eq!(cancelled == 1, reason == "buyer" || reason == "seller", "{status} {reason}");
        let product = shop.order_field(order, "productId").await.as_i64().unwrap();
        let expected = match (status.as_str().unwrap(), reason.as_str()) {
            ("paid", None) => "sold",
            ("cancelled", Some("seller")) => "off_shelf",
            ("cancelled", Some("buyer" | "timeout")) => "on_sale",
            other => panic!("{other:?}"),
        };
        assert_eq!(shop.product_field(product, "status").await, expected);
        let refunds = format!("SELECT count(*) FROM refunds WHERE order_id = {order} AND status = 'SUCCESS'");
        let captured =
            format!("SELECT count(*) FROM payment_captures WHERE order_id = {order} AND refund_due = 1");
        shop.expect_count(shop.snapshot.number(&captured).await, &refunds).await;
    }
    shop.settled().await;
    shop.assert_invariants_except(&[]).await;
}

async fn shipped_order_is_completed_automatically_unless_it_is_switched_off(pair: Pair) {
    let days = "HANDOVER_ORDER__AUTO_COMPLETE_DAYS";
    let shop = Shop::open(pair, &[(days, "0")]).await;
    let order = shop.paid_order().await;
    shop.api.ship(SELLER, order).await.unwrap().value();
    shop.settled().await;
    assert_eq!(shop.order_field(order, "status").await, "shipped");
    let (deployment, _) = shop.close();
    let shop = Shop::open_on(deployment, &[(days, "0.000001")], None).await;
    shop.expect_count(1, &format!("SELECT count(*) FROM orders WHERE id = {order} AND status = 'completed'"))
        .await;
    shop.expect_logged(&["[AutoCompletion]", "order completed", &order.to_string()]).await;
    let late = shop.api.complete(BUYER, order).await.unwrap();
    assert_eq!(late.outcome(), (409, "A0409"));
    shop.settled().await;
    assert_eq!(shop.notified_statuses(order).await, ["shipped", "completed"]);
    let jobs =
        "SELECT count(*) FROM outbox_jobs WHERE job = 'AutoCompletion' AND last_success_time IS NOT NULL";
    assert_eq!(shop.snapshot.number(jobs).await, 1);
    shop.assert_invariants_except(&[]).await;
}

super::by_turns! {
    shipped_order_is_completed_automatically_unless_it_is_switched_off,
    declined_orders_return_assets_and_their_products_go_where_the_seller_says,
}
// On each engine, because their transactions differ.
super::by_turns! { @stamp one_of_64_concurrent_declines_cancellations_payments_and_timeouts_wins
    [sqlite_and_database SqliteAlone] [postgres_and_database PostgresAlone] [mariadb_and_rabbitmq MariaDbRabbitMq];
    [postgres_and_rabbitmq PostgresRabbitMq]
}
