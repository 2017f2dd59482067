//! `/api/v1/wallet`, `/points`, `/coupons`, and orders that are paid with them.

use std::num::NonZeroU32;

use marketplace::Role;
use marketplace_domain::PointsRules;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::world::{BUYER, SELLER, STRANGER, Setup, World, report};

impl World {
    /// The buyer orders a product for 88.50 with these assets.
    async fn order_with(&self, assets: &str) -> Answer {
        let body = format!(r#"{{"productId":{},{assets}}}"#, self.product().await);
        self.post_as(BUYER, "/api/v1/orders").json(body).send().await
    }

    async fn pay(&self, order: i64) -> Answer {
        self.post_as(BUYER, &format!("/api/v1/orders/{order}/payments")).send().await
    }
}

/// The entries of an answer, each by its account and its amounts as they were written.
fn moves(data: &Value) -> Vec<String> {
    let told = |entry: &Value| {
        format!("{} {} -> {}", entry["account"].as_str().unwrap(), entry["amount"], entry["balanceAfter"])
    };
    data["entries"].as_array().unwrap().iter().map(told).collect()
}

#[tokio::test(start_paused = true)]
async fn a_wallet_shows_what_is_there_what_is_held_and_what_moved_it() {
    let world = World::new().await;
    let empty = world.get_as(BUYER, "/api/v1/wallet").send().await.expect(200, "00000");
    assert!(empty.text.contains(r#""available":0.00,"frozen":0.00,"holds":[]"#), "{}", empty.text);
    world.deposited("100.00").await;
    let order = world.order_with(r#""walletAmount":20.50"#).await.expect(201, "00000").id("orderId");
    world.settled().await;
    let wallet = world.mine(BUYER, "wallet").await;
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
        moves(&wallet),
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
async fn points_are_whole_and_can_be_owed() {
    let world = World::new().await;
    world.settled().await;
    // Earned with one order, spent with the next, and then taken back.
    let earning = world.paid().await;
    world.rested().await;
    let spending = world.order_with(r#""points":88"#).await.expect(201, "00000").id("orderId");
    world.rested().await;
    let refunds = format!("/api/v1/orders/{earning}/refunds");
    let refund = world.post_as(BUYER, &refunds).json(r#"{"reason":"no"}"#).send().await.expect(201, "00000");
    let body = format!(r#"{{"refundId":{},"result":"SUCCESS"}}"#, refund.id("refundId"));
    world.signed("/api/v1/refunds/callback", &body).await.expect(200, "00000");
    world.rested().await;
    let points = world.mine(BUYER, "points").await;
    let shown = (&points["available"], &points["frozen"], &points["debt"]);
    assert_eq!(shown, (&json!(0), &json!(88), &json!(88)));
    let hold = &points["holds"][0];
    assert_eq!((&hold["orderId"], &hold["amount"]), (&json!(spending), &json!(88)));
    assert_eq!(
        moves(&points),
        ["points_debt -88 -> -88", "points_hold 88 -> 88", "points -88 -> 0", "points 88 -> 88"]
    );
    let unearned = &points["entries"][0];
    assert_eq!(
        (&unearned["operation"], &unearned["refundId"]),
        (&json!("UNEARN"), &json!(refund.id("refundId")))
    );
}

#[tokio::test(start_paused = true)]
async fn an_order_shows_the_assets_it_is_paid_with_and_is_paid_once_they_are_locked() {
    let world = World::new().await;
    world.deposited("20.00").await;
    world.granted(350).await;
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
    world.settled().await;
    let locked = world.mine(BUYER, "coupons").await;
    assert_eq!(
        (&locked["items"][0]["status"], &locked["items"][0]["orderId"]),
        (&json!("LOCKED"), &json!(order))
    );
    world.callback(&report(payment, "t-1", "SUCCESS", "60.00")).await.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
    world.rested().await;
    assert_eq!(world.mine(BUYER, "coupons").await["items"][0]["status"], "USED");
    assert_eq!(world.mine(BUYER, "wallet").await["holds"], json!([]));
    assert_eq!(world.mine(BUYER, "points").await["available"], 60, "earned by what was paid in money");
}

#[tokio::test(start_paused = true)]
async fn what_assets_pay_whole_is_paid_without_the_gateway_once_they_are_locked() {
    let world = World::new().await;
    world.deposited("88.50").await;
    let placed = world.order_with(r#""walletAmount":88.50"#).await.expect(201, "00000");
    let order = placed.id("orderId");
    let early = world.pay(order).await.expect(503, "C0001");
    assert_eq!(early.headers["retry-after"], "1");
    world.settled().await;
    let paid = world.pay(order).await.expect(201, "00000");
    assert_eq!(
        (&paid.data["status"], paid.data["amount"].to_string()),
        (&json!("SUCCESS"), "0.00".to_owned())
    );
    assert_eq!(world.order_status(order).await, "paid");
    // And it is paid back without it.
    world.rested().await;
    let refunds = format!("/api/v1/orders/{order}/refunds");
    let refund = world.post_as(BUYER, &refunds).json(r#"{"reason":"no"}"#).send().await.expect(201, "00000");
    assert_eq!(
        (&refund.data["status"], refund.data["amount"].to_string()),
        (&json!("SUCCESS"), "0.00".to_owned())
    );
    assert_eq!(world.order_status(order).await, "refunded");
    world.rested().await;
    let wallet = world.mine(BUYER, "wallet").await;
    assert_eq!((wallet["available"].to_string(), &wallet["holds"]), ("88.50".to_owned(), &json!([])));
    assert_eq!(moves(&wallet)[0], "wallet 88.50 -> 88.50");
}

#[tokio::test(start_paused = true)]
async fn assets_that_cannot_be_used_so_are_refused_and_the_product_stays_on_sale() {
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
        let answer = place(BUYER, assets.clone()).send().await.expect(400, "A0400");
        assert_eq!(answer.wrong_fields(), [field], "{assets}");
    }
    let below = place(BUYER, format!(r#""couponId":{dear}"#)).send().await.expect(409, "A0409");
    assert_eq!(below.message, "the coupon is for 88.51 or more, the price is 88.50");
    let below = place(BUYER, format!(r#""couponId":{dear}"#)).header("accept-language", "zh").send().await;
    assert_eq!(below.message, "优惠券需满 88.51 可用，当前价格为 88.50");
    for (user, coupon) in [(BUYER, cheap + 1), (STRANGER, cheap)] {
        let unknown = place(user, format!(r#""couponId":{coupon}"#)).send().await.expect(404, "A0404");
        assert_eq!(unknown.message, "no such coupon");
    }
    let none = r#""couponId":null,"walletAmount":0.00,"points":0"#.to_owned();
    let placed = place(BUYER, none).send().await.expect(201, "00000").data;
    assert_eq!([&placed["couponId"], &placed["walletAmount"], &placed["points"]], [&Value::Null; 3]);
}

#[tokio::test(start_paused = true)]
async fn points_that_are_worth_no_whole_cent_are_refused() {
    let per_unit = NonZeroU32::new(1_000).unwrap();
    let points = PointsRules { per_unit, ..PointsRules::default() };
    let world = World::with(Setup { points, ..Setup::default() }).await;
    let answer = world.order_with(r#""points":1005"#).await.expect(400, "A0400");
    assert_eq!(answer.wrong_fields(), ["points"]);
    assert_eq!(answer.data["errors"][0]["message"], "points must be a multiple of 10");
}

#[tokio::test(start_paused = true)]
async fn an_order_whose_assets_are_not_there_is_cancelled() {
    let world = World::new().await;
    let order = world.order_with(r#""walletAmount":1.00"#).await.expect(201, "00000").id("orderId");
    world.settled().await;
    let seen = world.mine(BUYER, &format!("orders/{order}")).await;
    assert_eq!((&seen["status"], &seen["cancelReason"]), (&json!("cancelled"), &json!("asset_lock_failed")));
}

#[tokio::test(start_paused = true)]
async fn coupons_are_listed_newest_first_as_they_stand_now() {
    let world = World::new().await;
    let lasting = world.coupon("20.00").await;
    let soon = r#"{"userId":8,"discount":1.00,"expiresAt":"2026-01-31T08:00:10Z"}"#;
    let soon = world.give("/api/v1/ops/coupons", "", soon).await.expect(201, "00000").id("couponId");
    world.rested().await;
    let page = world.get_as(BUYER, "/api/v1/coupons").send().await.expect(200, "00000");
    assert!(page.text.contains(r#""discount":5.00,"minSpend":20.00,"#), "{}", page.text);
    let (first, second) = (&page.data["items"][0], &page.data["items"][1]);
    let expected = json!({
        "couponId": lasting, "discount": second["discount"], "minSpend": second["minSpend"],
        "expiresAt": "2026-03-01T00:00:00.000000Z", "status": "AVAILABLE", "orderId": null
    });
    assert_eq!(*second, expected);
    assert_eq!((&first["couponId"], &first["status"]), (&json!(soon), &json!("EXPIRED")));
    let one = world.mine(BUYER, "coupons?limit=1").await;
    assert_eq!((&one["items"], &one["nextCursor"]), (&json!([first]), &json!(soon.to_string())));
    let rest = world.mine(BUYER, &format!("coupons?limit=1&cursor={soon}")).await;
    assert_eq!(rest, json!({ "items": [second], "nextCursor": null }));
}

#[tokio::test(start_paused = true)]
async fn entries_come_in_pages_and_the_balance_with_each() {
    let world = World::new().await;
    for amount in ["1.00", "2.00", "3.00"] {
        world.deposited(amount).await;
    }
    let first = world.mine(BUYER, "wallet?limit=2").await;
    assert_eq!(moves(&first), ["wallet 3.00 -> 6.00", "wallet 2.00 -> 3.00"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    assert_eq!(cursor, first["entries"][1]["id"].to_string());
    let rest = world.mine(BUYER, &format!("wallet?limit=2&cursor={cursor}")).await;
    assert_eq!((moves(&rest), &rest["nextCursor"]), (vec!["wallet 1.00 -> 1.00".to_owned()], &Value::Null));
    assert_eq!(rest["available"], first["available"]);
    for path in ["wallet", "points", "coupons"] {
        for (query, field) in [("limit=0", "limit"), ("cursor=x", "cursor"), ("userId=9", "userId")] {
            let answer = world.get_as(BUYER, &format!("/api/v1/{path}?{query}")).send().await;
            assert_eq!(answer.expect(400, "A0400").wrong_fields(), [field], "{path}?{query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_sees_what_another_has_or_somebody_in_another_tenant() {
    let world = World::new().await;
    world.deposited("100.00").await;
    world.granted(100).await;
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
