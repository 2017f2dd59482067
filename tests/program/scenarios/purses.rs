//! Buyers with something in their purses, and orders that are paid with it.

use handover_tests::client::Answer;
use handover_tests::process::eventually;
use serde_json::{Value, json};

use super::shop::{BUYER, OPERATOR, SELLER, SOON, Shop};

/// What an order is to be paid with beside money: minor units, points.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct With {
    pub(crate) coupon: Option<i64>,
    pub(crate) wallet: i64,
    pub(crate) points: i64,
}

/// An amount of minor units as JSON writes it.
pub(crate) fn money(minor: i64) -> Value {
    serde_json::from_str(&format!("{}.{:02}", minor / 100, minor % 100)).unwrap()
}

impl Shop {
    pub(crate) async fn deposit(&self, user: i64, minor: i64) {
        let path = format!("/api/v1/ops/wallets/{user}/deposits");
        self.api.post(OPERATOR, &path, json!({"amount": money(minor)})).await.unwrap().value();
    }

    pub(crate) async fn grant(&self, user: i64, points: i64) {
        let path = format!("/api/v1/ops/points/{user}/grants");
        self.api.post(OPERATOR, &path, json!({"points": points})).await.unwrap().value();
    }

    pub(crate) async fn coupon(&self, user: i64, minor: i64) -> i64 {
        let body = json!({
            "userId": user, "discount": money(minor), "minSpend": money(100), "expiresAt": "2099-01-01T00:00:00Z",
        });
        self.api.post(OPERATOR, "/api/v1/ops/coupons", body).await.unwrap().id("couponId")
    }

    /// The buyer has 50.00, 300 points and a coupon over 10.00; tells which.
    pub(crate) async fn fill_purses(&self) -> i64 {
        self.deposit(BUYER, 5_000).await;
        self.grant(BUYER, 300).await;
        self.coupon(BUYER, 1_000).await
    }

    /// Orders a new product. Asks again, under the same key, while the service has no room: many may order at once.
    pub(crate) async fn try_order_with(&self, with: With) -> Answer {
        let product = self.product().await;
        let mut body = json!({"productId": product});
        if let Some(coupon) = with.coupon {
            body["couponId"] = json!(coupon);
        }
        if with.wallet > 0 {
            body["walletAmount"] = money(with.wallet);
        }
        if with.points > 0 {
            body["points"] = json!(with.points);
        }
        let key = format!("order-of-{product}");
        eventually(SOON, async || {
            let answer = self.api.post_under(&key, BUYER, "/api/v1/orders", body.clone()).await;
            let answer = answer.map_err(|lost| lost.0)?;
            if answer.status == 503 { Err(format!("{answer:?}").into()) } else { Ok(answer) }
        })
        .await
    }

    pub(crate) async fn order_with(&self, with: With) -> i64 {
        self.try_order_with(with).await.id("orderId")
    }

    /// Waits until so many holds of the order are frozen.
    pub(crate) async fn locked(&self, order: i64, holds: i64) {
        let sql = format!("SELECT count(*) FROM asset_holds WHERE order_id = {order} AND status = 'FROZEN'");
        self.expect_count(holds, &sql).await;
    }

    /// The gateway takes what is left to be paid.
    pub(crate) async fn pay_rest(&self, order: i64) {
        let payment = self.api.start_payment(BUYER, order).await.unwrap().value();
        if payment["status"] == "PROCESSING" {
            let id = payment["paymentId"].as_i64().unwrap();
            self.api.payment_of_reported(id, &payment["amount"], "SUCCESS").await.unwrap().value();
        }
    }

    /// The buyer asks for a refund; its id.
    pub(crate) async fn refund(&self, order: i64) -> i64 {
        let path = format!("/api/v1/orders/{order}/refunds");
        self.api.post(BUYER, &path, json!({"reason": "too small"})).await.unwrap().id("refundId")
    }

    /// Wallet and points, each available and frozen, as its owner sees them.
    pub(crate) async fn purses(&self, user: i64) -> [Value; 4] {
        let wallet = self.api.get(user, "/api/v1/wallet").await.unwrap().value();
        let points = self.api.get(user, "/api/v1/points").await.unwrap().value();
        let of = |purse: &Value, field: &str| purse[field].clone();
        [of(&wallet, "available"), of(&wallet, "frozen"), of(&points, "available"), of(&points, "frozen")]
    }

    pub(crate) async fn coupon_status(&self, coupon: i64) -> String {
        self.rows(&format!("SELECT status FROM coupons WHERE id = {coupon}")).await.remove(0)
    }

    pub(crate) async fn ship_fails(&self, order: i64) {
        let answer = self.api.ship(SELLER, order).await.unwrap();
        assert_eq!(answer.outcome(), (409, "A0409"));
    }
}

/// Wallet and points as JSON shows them.
pub(crate) fn purses(wallet: i64, frozen: i64, points: i64, held: i64) -> [Value; 4] {
    [money(wallet), money(frozen), json!(points), json!(held)]
}
