//! Buyers with wallet, points and coupons, and orders that use them.

use handover_tests::client::ApiResponse;
use handover_tests::process::eventually;
use serde_json::{Value, json};

use super::shop::{BUYER, OPERATOR, SELLER, SOON, Shop};

/// The assets that an order uses: the id of a coupon, a wallet amount in minor units, a number of points.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct With {
    pub(crate) coupon: Option<i64>,
    pub(crate) wallet: i64,
    pub(crate) points: i64,
}

/// Converts an amount in minor units to a JSON number.
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

    /// Gives the buyer a wallet balance of 50.00, 300 points and a coupon for 10.00. Returns the coupon's id.
    pub(crate) async fn fill_purses(&self) -> i64 {
        self.deposit(BUYER, 5_000).await;
        self.grant(BUYER, 300).await;
        self.coupon(BUYER, 1_000).await
    }

    /// Orders a new product. Repeats the request under the same key while the response is 503.
    pub(crate) async fn try_order_with(&self, with: With) -> ApiResponse {
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
            let response = self.api.post_under(&key, BUYER, "/api/v1/orders", body.clone()).await;
            let response = response.map_err(|lost| lost.0)?;
            if response.status == 503 { Err(format!("{response:?}").into()) } else { Ok(response) }
        })
        .await
    }

    pub(crate) async fn order_with(&self, with: With) -> i64 {
        self.try_order_with(with).await.id("orderId")
    }

    /// Waits until the order has this many FROZEN holds.
    pub(crate) async fn locked(&self, order: i64, holds: i64) {
        let sql = format!("SELECT count(*) FROM asset_holds WHERE order_id = {order} AND status = 'FROZEN'");
        self.expect_count(holds, &sql).await;
    }

    /// Pays the remaining amount, if there is any, through the gateway.
    pub(crate) async fn pay_rest(&self, order: i64) {
        let payment = self.api.start_payment(BUYER, order).await.unwrap().value();
        if payment["status"] == "PROCESSING" {
            let id = payment["paymentId"].as_i64().unwrap();
            self.api.payment_of_reported(id, &payment["amount"], "SUCCESS").await.unwrap().value();
        }
    }

    /// Requests a refund as the buyer. Returns its id.
    pub(crate) async fn refund(&self, order: i64) -> i64 {
        let path = format!("/api/v1/orders/{order}/refunds");
        self.api.post(BUYER, &path, json!({"reason": "too small"})).await.unwrap().id("refundId")
    }

    /// Returns the available and the frozen amount of a user's wallet, then of the points.
    pub(crate) async fn purses(&self, user: i64) -> [Value; 4] {
        let wallet = self.api.get(user, "/api/v1/wallet").await.unwrap().value();
        let points = self.api.get(user, "/api/v1/points").await.unwrap().value();
        let of = |purse: &Value, field: &str| purse[field].clone();
        [of(&wallet, "available"), of(&wallet, "frozen"), of(&points, "available"), of(&points, "frozen")]
    }

    pub(crate) async fn coupon_status(&self, coupon: i64) -> String {
        self.rows(&format!("SELECT status FROM coupons WHERE id = {coupon}")).await.remove(0)
    }

    pub(crate) async fn assert_cannot_ship(&self, order: i64) {
        let response = self.api.ship(SELLER, order).await.unwrap();
        assert_eq!(response.outcome(), (409, "A0409"));
    }
}

/// Expected result of [`Shop::purses`].
pub(crate) fn purses(wallet: i64, frozen: i64, points: i64, frozen_points: i64) -> [Value; 4] {
    [money(wallet), money(frozen), json!(points), json!(frozen_points)]
}
