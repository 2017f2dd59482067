//! `/api/v1/ops/wallets`, `/points`, `/coupons`: what operators give.

use handover_events::TenantId;
use handover_outbox::with_tx;
use marketplace::Role;
use marketplace_domain::{Balance, Purse, UserId};
use serde_json::{Value, json};

use crate::client::Answer;
use crate::world::{BUYER, STRANGER, World};

const DEPOSITS: &str = "/api/v1/ops/wallets/8/deposits";
const GRANTS: &str = "/api/v1/ops/points/8/grants";
const COUPONS: &str = "/api/v1/ops/coupons";
const COUPON: &str = r#"{"userId":8,"discount":5,"minSpend":20.5,"expiresAt":"2026-03-01T00:00:00+08:00"}"#;

impl World {
    /// An operator gives; under this key, if it is not empty.
    pub(crate) async fn give(&self, path: &str, key: &str, body: &str) -> Answer {
        let request = self.post_operating(path).json(body);
        let request = if key.is_empty() { request } else { request.header("x-idempotency-key", key) };
        request.send().await
    }

    /// The buyer has so much in the wallet.
    pub(crate) async fn deposited(&self, amount: &str) {
        self.give(DEPOSITS, "", &format!(r#"{{"amount":{amount}}}"#)).await.expect(201, "00000");
    }

    /// The buyer has so many points.
    pub(crate) async fn granted(&self, points: i64) {
        self.give(GRANTS, "", &format!(r#"{{"points":{points}}}"#)).await.expect(201, "00000");
    }

    /// The buyer has this coupon over 5.00.
    pub(crate) async fn coupon(&self, min_spend: &str) -> i64 {
        let terms = format!(r#""discount":5.00,"minSpend":{min_spend},"expiresAt":"2026-03-01T00:00:00Z""#);
        let issued = self.give(COUPONS, "", &format!(r#"{{"userId":{BUYER},{terms}}}"#)).await;
        issued.expect(201, "00000").id("couponId")
    }

    async fn available(&self, purse: &str) -> Value {
        self.mine(BUYER, purse).await["available"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_gives_money_points_and_coupons() {
    let world = World::new().await;
    let body = r#"{"amount":100.5,"reason":"for order 17"}"#;
    let deposit = world.give(DEPOSITS, "k-1", body).await.expect(201, "00000");
    assert!(deposit.text.contains(r#""amount":100.50,"balanceAfter":100.50,"#), "{}", deposit.text);
    let money = &deposit.data["amount"];
    let expected = json!({
        "userId": BUYER, "asset": "wallet", "operation": "DEPOSIT", "amount": money, "balanceAfter": money,
        "idempotencyKey": "deposit:8:9:k-1", "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(deposit.data, expected);
    let grant = world.give(GRANTS, "k-1", r#"{"points":300}"#).await.expect(201, "00000");
    let expected = json!({
        "userId": BUYER, "asset": "points", "operation": "GRANT", "amount": 300, "balanceAfter": 300,
        "idempotencyKey": "grant:8:9:k-1", "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(grant.data, expected);
    let issued = world.give(COUPONS, "k-1", COUPON).await.expect(201, "00000");
    assert!(issued.text.contains(r#""discount":5.00,"minSpend":20.50,"#), "{}", issued.text);
    let expected = json!({
        "couponId": issued.id("couponId"), "userId": BUYER, "discount": issued.data["discount"],
        "minSpend": issued.data["minSpend"], "expiresAt": "2026-02-28T16:00:00.000000Z", "status": "AVAILABLE",
        "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(issued.data, expected);
    let audit = world.get_operating("/api/v1/ops/audit").send().await.expect(200, "00000");
    let items = audit.data["items"].as_array().unwrap().iter();
    let told: Vec<Value> = items.map(|item| json!([item["action"], item["reason"]])).collect();
    let told_of = |action: &str, reason: Value| json!([action, reason]);
    assert_eq!(
        told,
        [
            told_of("coupon.issue", json!(null)),
            told_of("points.grant", json!(null)),
            told_of("wallet.deposit", json!("for order 17"))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn under_one_key_it_is_given_once_and_without_a_key_each_time() {
    let world = World::new().await;
    for (path, body, other) in [
        (DEPOSITS, r#"{"amount":10.00}"#, r#"{"amount":10.01}"#),
        (GRANTS, r#"{"points":10}"#, r#"{"points":11}"#),
        (
            COUPONS,
            COUPON,
            r#"{"userId":8,"discount":6,"minSpend":20.5,"expiresAt":"2026-03-01T00:00:00+08:00"}"#,
        ),
    ] {
        let first = world.give(path, "k-1", body).await.expect(201, "00000").data;
        assert_eq!(world.give(path, "k-1", body).await.expect(201, "00000").data, first, "{path}");
        let taken = world.give(path, "k-1", other).await.expect(422, "A0422");
        assert_eq!(
            (taken.message.as_str(), &taken.data),
            ("the idempotency key was used for another request", &Value::Null)
        );
    }
    let elsewhere = world.token(STRANGER, 2, &[Role::Operator]);
    let deposit = world.post(DEPOSITS).token(&elsewhere).header("x-idempotency-key", "k-1");
    deposit.json(r#"{"amount":7.00}"#).send().await.expect(201, "00000");
    assert_eq!(world.available("points").await, 10);
    assert_eq!(world.available("wallet").await.to_string(), "10.00", "each tenant has keys of its own");
    let anothers = world.give("/api/v1/ops/wallets/9/deposits", "k-1", r#"{"amount":7.00}"#).await;
    anothers.expect(201, "00000");
    assert_eq!(world.available("wallet").await.to_string(), "10.00", "and so has each user");
    let colleague = world.token(11, 1, &[Role::Operator]);
    let deposit = world.post(DEPOSITS).token(&colleague).header("x-idempotency-key", "k-1");
    deposit.json(r#"{"amount":10.00}"#).send().await.expect(201, "00000");
    assert_eq!(world.available("wallet").await.to_string(), "20.00", "and so has each operator");
    world.deposited("10.00").await;
    world.deposited("10.00").await;
    assert_eq!(world.available("wallet").await.to_string(), "40.00");
    // The answer is forgotten after a day, what was given never.
    tokio::time::advance(std::time::Duration::from_secs(25 * 60 * 60)).await;
    world.give(DEPOSITS, "k-1", r#"{"amount":10.00}"#).await.expect(201, "00000");
    assert_eq!(world.available("wallet").await.to_string(), "40.00");
}

#[tokio::test(start_paused = true)]
async fn the_longest_key_is_taken_and_a_coupon_is_the_same_however_finely_its_end_was_told() {
    let world = World::new().await;
    let longest = "k".repeat(255);
    for (path, body) in [(DEPOSITS, r#"{"amount":0.01}"#), (GRANTS, r#"{"points":1}"#), (COUPONS, COUPON)] {
        world.give(path, &longest, body).await.expect(201, "00000");
    }
    let body = r#"{"userId":8,"discount":9999999.99,"expiresAt":"2026-12-31T23:59:59.123456789Z"}"#;
    let first = world.give(COUPONS, "k-2", body).await.expect(201, "00000");
    assert_eq!(first.data["expiresAt"], "2026-12-31T23:59:59.123456Z");
    assert_eq!(first.data["minSpend"].to_string(), "0.00");
    assert_eq!(world.give(COUPONS, "k-2", body).await.expect(201, "00000").data, first.data);
}

#[tokio::test(start_paused = true)]
async fn every_wrong_field_of_a_gift_is_named() {
    let world = World::new().await;
    let coupon =
        |fields: &str| format!(r#"{{"userId":8,"discount":5,"expiresAt":"2026-03-01T00:00:00Z",{fields}}}"#);
    let expiring = |time: &str| format!(r#"{{"userId":8,"discount":5,"expiresAt":{time}}}"#);
    let cases: Vec<(&str, String, Vec<&str>)> = vec![
        (DEPOSITS, String::new(), vec!["body"]),
        (DEPOSITS, "{}".into(), vec!["amount"]),
        (DEPOSITS, r#"{"amount":0}"#.into(), vec!["amount"]),
        (DEPOSITS, r#"{"amount":10000000.00}"#.into(), vec!["amount"]),
        (DEPOSITS, r#"{"amount":-1}"#.into(), vec!["amount"]),
        (DEPOSITS, r#"{"amount":"1.00","userId":9}"#.into(), vec!["amount", "userId"]),
        (GRANTS, "{}".into(), vec!["points"]),
        (GRANTS, r#"{"points":0}"#.into(), vec!["points"]),
        (GRANTS, r#"{"points":1000000001}"#.into(), vec!["points"]),
        (GRANTS, r#"{"points":1.5}"#.into(), vec!["points"]),
        (GRANTS, r#"{"points":"5","amount":1}"#.into(), vec!["points", "amount"]),
        (COUPONS, "{}".into(), vec!["userId", "discount", "expiresAt"]),
        (COUPONS, coupon(r#""minSpend":-1"#), vec!["minSpend"]),
        (COUPONS, coupon(r#""minSpend":10000000"#), vec!["minSpend"]),
        (COUPONS, coupon(r#""code":"x""#), vec!["code"]),
        (COUPONS, expiring(r#""2026-01-31T08:00:00Z""#), vec!["expiresAt"]),
        (COUPONS, expiring(r#""9999-12-31T23:59:59-23:59""#), vec!["expiresAt"]),
        (COUPONS, expiring("1767225600"), vec!["expiresAt"]),
        (
            COUPONS,
            r#"{"userId":0,"discount":0,"expiresAt":"tomorrow"}"#.into(),
            vec!["userId", "discount", "expiresAt"],
        ),
    ];
    for (path, body, fields) in cases {
        let answer = world.give(path, "", &body).await.expect(400, "A0400");
        assert_eq!(answer.wrong_fields(), fields, "{path} {body}");
    }
    let answer = world.give(DEPOSITS, "a b", r#"{"amount":1}"#).await.expect(400, "A0400");
    assert_eq!(answer.wrong_fields(), ["X-Idempotency-Key"]);
    assert_eq!(world.mine(BUYER, "wallet").await["entries"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn only_operators_of_the_tenant_give_and_only_to_users() {
    let world = World::new().await;
    for path in [
        "/api/v1/ops/wallets/0/deposits",
        "/api/v1/ops/wallets/x/deposits",
        "/api/v1/ops/wallets/08/deposits",
    ] {
        let answer = world.give(path, "", r#"{"amount":1}"#).await.expect(404, "A0404");
        assert_eq!(answer.message, "no such user");
    }
    let platform = world.token(STRANGER, 1, &[Role::Platform]);
    world.post(DEPOSITS).token(&platform).json(r#"{"amount":1}"#).send().await.expect(403, "A0303");
    world.post_as(BUYER, DEPOSITS).json(r#"{"amount":1}"#).send().await.expect(403, "A0303");
}

#[tokio::test(start_paused = true)]
async fn an_account_holds_no_more_than_a_json_number_carries_whole() {
    let world = World::new().await;
    for (path, purse, body, field) in [
        (DEPOSITS, Purse::Wallet, r#"{"amount":0.01}"#, "amount"),
        (GRANTS, Purse::Points, r#"{"points":1}"#, "points"),
    ] {
        let now = world.app.now();
        let filled = with_tx(&world.app.tx, move |unit, _| {
            Box::pin(async move {
                let users = [(TenantId::DEFAULT, UserId::try_from(BUYER).unwrap())];
                let balance = unit.lock_balances(purse, &users, now).await?.pop().unwrap();
                let full = Balance { available: (1 << 53) - 1, version: balance.version + 1, ..balance };
                unit.put_balances(&[full]).await
            })
        });
        filled.await.unwrap();
        let answer = world.give(path, "", body).await.expect(400, "A0400");
        assert_eq!(answer.wrong_fields(), [field]);
        let full = world.mine(BUYER, purse.as_str()).await;
        assert_eq!(full["entries"], json!([]));
    }
}
