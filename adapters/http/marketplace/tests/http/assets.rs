//! `/api/v1/wallet`, `/points`, `/coupons`, and orders paid with assets.

use std::num::NonZeroU32;

use marketplace::Role;
use marketplace_domain::PointsRules;
use serde_json::{Value, json};

use crate::client::ApiResponse;
use crate::world::{BUYER, OTHER_USER, SELLER, Setup, World, report};

impl World {
    /// Places the buyer's order for a product of 88.50 with these assets.
    pub(crate) async fn order_with(&self, assets: &str) -> ApiResponse {
        let body = format!(r#"{{"productId":{},{assets}}}"#, self.product().await);
        self.post_as(BUYER, "/api/v1/orders").json(body).send().await
    }

    async fn pay(&self, order: i64) -> ApiResponse {
        self.post_as(BUYER, &format!("/api/v1/orders/{order}/payments")).send().await
    }
}

/// The ledger entries as text: account, amount and balance, with the decimals of the response.
fn ledger_entries(data: &Value) -> Vec<String> {
    let as_text = |entry: &Value| {
        format!("{} {} -> {}", entry["account"].as_str().unwrap(), entry["amount"], entry["balanceAfter"])
    };
    data["entries"].as_array().unwrap().iter().map(as_text).collect()
}

#[tokio::test(start_paused = true)]
async fn wallet_shows_balance_holds_and_ledger_entries() {
    let world = World::new().await;
    let empty = world.get_as(BUYER, "/api/v1/wallet").send().await.expect(200, "00000");
    assert!(empty.text.contains(r#""available":0.00,"frozen":0.00,"holds":[]"#), "{}", empty.text);
    world.deposit_to_buyer("100.00").await;
    let order = world.order_with(r#""walletAmount":20.50"#).await.expect(201, "00000").id("orderId");
    world.run_until_idle().await;
    let wallet = world.get_data_as(BUYER, "wallet").await;
    let (hold, entry) = (&wallet["holds"][0], &wallet["entries"][0]);
    let expected = json!({
        "available": wallet["available"], "frozen": wallet["frozen"],
        "holds": [{
            "orderId": order, "amount": hold["amount"], "status": "FROZEN", "createTime": hold["createTime"]
        }],
        "entries": wallet["entries"], "nextCursor": null
    });
    assert_eq!(wallet, expected);
    let amounts = [&wallet["available"], &wallet["frozen"], &hold["amount"]].map(Value::to_string);
    assert_eq!(amounts, ["79.50", "20.50", "20.50"]);
    assert_eq!(
        ledger_entries(&wallet),
        ["wallet_hold 20.50 -> 20.50", "wallet -20.50 -> 79.50", "wallet 100.00 -> 100.00"]
    );
    let expected = json!({
        "id": entry["id"], "account": "wallet_hold", "amount": entry["amount"],
        "balanceAfter": entry["balanceAfter"], "operation": "FREEZE",
        "idempotencyKey": format!("wallet:{order}:freeze"), "orderId": order, "refundId": null,
        "createTime": entry["createTime"]
    });
    assert_eq!(*entry, expected);
    assert!(entry["createTime"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test(start_paused = true)]
async fn points_are_integers_and_can_become_debt() {
    let world = World::new().await;
    world.run_until_idle().await;
    // Points earned with the first order are spent on the second; then the first order is refunded.
    let earning = world.paid_order().await;
    world.wait_until_idle().await;
    let spending = world.order_with(r#""points":88"#).await.expect(201, "00000").id("orderId");
    world.wait_until_idle().await;
    let refunds = format!("/api/v1/orders/{earning}/refunds");
    let refund = world.post_as(BUYER, &refunds).json(r#"{"reason":"no"}"#).send().await.expect(201, "00000");
    let body = format!(r#"{{"refundId":{},"result":"SUCCESS"}}"#, refund.id("refundId"));
    world.signed("/api/v1/refunds/callback", &body).await.expect(200, "00000");
    world.wait_until_idle().await;
    let points = world.get_data_as(BUYER, "points").await;
    let shown = (&points["available"], &points["frozen"], &points["debt"]);
    assert_eq!(shown, (&json!(0), &json!(88), &json!(88)));
    let hold = &points["holds"][0];
    assert_eq!((&hold["orderId"], &hold["amount"]), (&json!(spending), &json!(88)));
    assert_eq!(
        ledger_entries(&points),
        ["points_debt -88 -> -88", "points_hold 88 -> 88", "points -88 -> 0", "points 88 -> 88"]
    );
    let unearned = &points["entries"][0];
    assert_eq!(
        (&unearned["operation"], &unearned["refundId"]),
        (&json!("UNEARN"), &json!(refund.id("refundId")))
    );
}

#[tokio::test(start_paused = true)]
async fn order_with_assets_shows_them_and_is_paid_after_they_are_locked() {
    let world = World::new().await;
    world.deposit_to_buyer("20.00").await;
    world.grant_points_to_buyer(350).await;
    let coupon = world.coupon("80.00").await;
    let assets = format!(r#""couponId":{coupon},"walletAmount":20,"points":350"#);
    let placed = world.order_with(&assets).await.expect(201, "00000");
    let order = placed.id("orderId");
    let part = format!(
        r#""totalAmount":88.50,"payableAmount":60.00,"couponId":{coupon},"couponDiscount":5.00,"walletAmount":20.00,"points":350,"refundId":null,"#
    );
    assert!(placed.text.contains(&part), "{}", placed.text);
    let payment = world.pay(order).await.expect(201, "00000").id("paymentId");
    let early = world.callback(&report(payment, "t-1", "SUCCESS", "60.00")).await.expect(503, "C0001");
    assert_eq!((early.headers["retry-after"].to_str().unwrap(), &early.data), ("1", &Value::Null));
    assert_eq!(world.order_status(order).await, "pending");
    world.run_until_idle().await;
    let locked = world.get_data_as(BUYER, "coupons").await;
    assert_eq!(
        (&locked["items"][0]["status"], &locked["items"][0]["orderId"]),
        (&json!("LOCKED"), &json!(order))
    );
    world.callback(&report(payment, "t-1", "SUCCESS", "60.00")).await.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
    world.wait_until_idle().await;
    assert_eq!(world.get_data_as(BUYER, "coupons").await["items"][0]["status"], "USED");
    assert_eq!(world.get_data_as(BUYER, "wallet").await["holds"], json!([]));
    assert_eq!(
        world.get_data_as(BUYER, "points").await["available"],
        60,
        "points are earned for the amount paid in money"
    );
}

#[tokio::test(start_paused = true)]
async fn order_paid_entirely_by_assets_needs_no_gateway_after_they_are_locked() {
    let world = World::new().await;
    world.deposit_to_buyer("88.50").await;
    let placed = world.order_with(r#""walletAmount":88.50"#).await.expect(201, "00000");
    let order = placed.id("orderId");
    let early = world.pay(order).await.expect(503, "C0001");
    assert_eq!(early.headers["retry-after"], "1");
    world.run_until_idle().await;
    let paid = world.pay(order).await.expect(201, "00000");
    assert_eq!(
        (&paid.data["status"], paid.data["amount"].to_string()),
        (&json!("SUCCESS"), "0.00".to_owned())
    );
    assert_eq!(world.order_status(order).await, "paid");
    // Like the payment, the refund of 0.00 does not need the gateway.
    world.wait_until_idle().await;
    let refunds = format!("/api/v1/orders/{order}/refunds");
    let refund = world.post_as(BUYER, &refunds).json(r#"{"reason":"no"}"#).send().await.expect(201, "00000");
    assert_eq!(
        (&refund.data["status"], refund.data["amount"].to_string()),
        (&json!("SUCCESS"), "0.00".to_owned())
    );
    assert_eq!(world.order_status(order).await, "refunded");
    world.wait_until_idle().await;
    let wallet = world.get_data_as(BUYER, "wallet").await;
    assert_eq!((wallet["available"].to_string(), &wallet["holds"]), ("88.50".to_owned(), &json!([])));
    assert_eq!(ledger_entries(&wallet)[0], "wallet 88.50 -> 88.50");
}

#[tokio::test(start_paused = true)]
async fn order_with_unusable_assets_is_rejected_and_product_stays_on_sale() {
    let world = World::new().await;
    let (dear, cheap) = (world.coupon("88.51").await, world.coupon("88.50").await);
    let product = world.product().await;
    let place = |user: i64, assets: String| {
        world.post_as(user, "/api/v1/orders").json(format!(r#"{{"productId":{product},{assets}}}"#))
    };
    for (assets, field) in [
        (r#""walletAmount":88.51"#.to_owned(), "walletAmount"),
        (format!(r#""couponId":{cheap},"walletAmount":83.51"#), "walletAmount"),
        (r#""points":8851"#.to_owned(), "points"),
        (r#""walletAmount":88.50,"points":1"#.to_owned(), "points"),
        (r#""points":9007199254740991"#.to_owned(), "points"),
    ] {
        let response = place(BUYER, assets.clone()).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), [field], "{assets}");
    }
    let below = place(BUYER, format!(r#""couponId":{dear}"#)).send().await.expect(409, "A0409");
    assert_eq!(below.message, "the coupon requires a price of at least 88.51; the price is 88.50");
    let below = place(BUYER, format!(r#""couponId":{dear}"#)).header("accept-language", "zh").send().await;
    assert_eq!(below.message, "优惠券需满 88.51 可用，当前价格为 88.50");
    for (user, coupon) in [(BUYER, cheap + 1), (OTHER_USER, cheap)] {
        let unknown = place(user, format!(r#""couponId":{coupon}"#)).send().await.expect(404, "A0404");
        assert_eq!(unknown.message, "no such coupon");
    }
    let none = r#""couponId":null,"walletAmount":0.00,"points":0"#.to_owned();
    let placed = place(BUYER, none).send().await.expect(201, "00000").data;
    assert_eq!([&placed["couponId"], &placed["walletAmount"], &placed["points"]], [&Value::Null; 3]);
}

#[tokio::test(start_paused = true)]
async fn points_not_worth_whole_cents_are_rejected() {
    let per_unit = NonZeroU32::new(1_000).unwrap();
    let points = PointsRules { per_unit, ..PointsRules::default() };
    let world = World::with(Setup { points, ..Setup::default() }).await;
    let response = world.order_with(r#""points":1005"#).await.expect(400, "A0400");
    assert_eq!(response.wrong_fields(), ["points"]);
    assert_eq!(response.data["errors"][0]["message"], "points must be a multiple of 10");
}

#[tokio::test(start_paused = true)]
async fn order_with_insufficient_assets_is_cancelled() {
    let world = World::new().await;
    let order = world.order_with(r#""walletAmount":1.00"#).await.expect(201, "00000").id("orderId");
    world.run_until_idle().await;
    let seen = world.get_data_as(BUYER, &format!("orders/{order}")).await;
    assert_eq!((&seen["status"], &seen["cancelReason"]), (&json!("cancelled"), &json!("asset_lock_failed")));
}

#[tokio::test(start_paused = true)]
async fn coupons_are_listed_newest_first_with_current_status() {
    let world = World::new().await;
    let lasting = world.coupon("20.00").await;
    let soon = r#"{"userId":8,"discount":1.00,"expiresAt":"2026-01-31T08:00:10Z"}"#;
    let soon = world.grant("/api/v1/ops/coupons", "", soon).await.expect(201, "00000").id("couponId");
    world.wait_until_idle().await;
    let page = world.get_as(BUYER, "/api/v1/coupons").send().await.expect(200, "00000");
    assert!(page.text.contains(r#""discount":5.00,"minSpend":20.00,"#), "{}", page.text);
    let (first, second) = (&page.data["items"][0], &page.data["items"][1]);
    let expected = json!({
        "couponId": lasting, "discount": second["discount"], "minSpend": second["minSpend"],
        "expiresAt": "2026-03-01T00:00:00.000000Z", "status": "AVAILABLE", "orderId": null
    });
    assert_eq!(*second, expected);
    assert_eq!((&first["couponId"], &first["status"]), (&json!(soon), &json!("EXPIRED")));
    let one = world.get_data_as(BUYER, "coupons?limit=1").await;
    assert_eq!((&one["items"], &one["nextCursor"]), (&json!([first]), &json!(soon.to_string())));
    let rest = world.get_data_as(BUYER, &format!("coupons?limit=1&cursor={soon}")).await;
    assert_eq!(rest, json!({ "items": [second], "nextCursor": null }));
}

#[tokio::test(start_paused = true)]
async fn ledger_entries_are_paged_and_each_page_has_the_balance() {
    let world = World::new().await;
    for amount in ["1.00", "2.00", "3.00"] {
        world.deposit_to_buyer(amount).await;
    }
    let first = world.get_data_as(BUYER, "wallet?limit=2").await;
    assert_eq!(ledger_entries(&first), ["wallet 3.00 -> 6.00", "wallet 2.00 -> 3.00"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    assert_eq!(cursor, first["entries"][1]["id"].to_string());
    let rest = world.get_data_as(BUYER, &format!("wallet?limit=2&cursor={cursor}")).await;
    assert_eq!(
        (ledger_entries(&rest), &rest["nextCursor"]),
        (vec!["wallet 1.00 -> 1.00".to_owned()], &Value::Null)
    );
    assert_eq!(rest["available"], first["available"]);
    for path in ["wallet", "points", "coupons"] {
        for (query, field) in [("limit=0", "limit"), ("cursor=x", "cursor"), ("userId=9", "userId")] {
            let response = world.get_as(BUYER, &format!("/api/v1/{path}?{query}")).send().await;
            assert_eq!(response.expect(400, "A0400").wrong_fields(), [field], "{path}?{query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn assets_of_other_users_and_tenants_are_not_visible() {
    let world = World::new().await;
    world.deposit_to_buyer("100.00").await;
    world.grant_points_to_buyer(100).await;
    world.coupon("20.00").await;
    for token in [world.token(SELLER, 1, &[Role::User]), world.token(BUYER, 2, &[Role::User])] {
        for path in ["wallet", "points"] {
            let seen = world.get(&format!("/api/v1/{path}")).token(&token).send().await.expect(200, "00000");
            assert_eq!(seen.data["entries"], json!([]), "{path}");
            assert_eq!(seen.data["available"].to_string().trim_matches(['0', '.']), "", "{path}");
        }
        let coupons = world.get("/api/v1/coupons").token(&token).send().await.expect(200, "00000");
        assert_eq!(coupons.data["items"], json!([]));
    }
}
