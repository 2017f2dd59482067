//! `/api/v1/ops/wallets`, `/points`, `/coupons`: asset grants of operators.

use handover_events::TenantId;
use handover_outbox::with_tx;
use marketplace::Role;
use marketplace_domain::{Balance, Purse, UserId};
use serde_json::{Value, json};

use crate::client::ApiResponse;
use crate::world::{BUYER, OTHER_USER, World};

const DEPOSITS: &str = "/api/v1/ops/wallets/8/deposits";
const GRANTS: &str = "/api/v1/ops/points/8/grants";
const COUPONS: &str = "/api/v1/ops/coupons";
const COUPON: &str = r#"{"userId":8,"discount":5,"minSpend":20.5,"expiresAt":"2026-03-01T00:00:00+08:00"}"#;

impl World {
    /// Sends a grant as an operator, with this key if it is not empty.
    pub(crate) async fn grant(&self, path: &str, key: &str, body: &str) -> ApiResponse {
        let request = self.post_as_operator(path).json(body);
        let request = if key.is_empty() { request } else { request.header("x-idempotency-key", key) };
        request.send().await
    }

    /// Deposits this amount into the buyer's wallet.
    pub(crate) async fn deposit_to_buyer(&self, amount: &str) {
        self.grant(DEPOSITS, "", &format!(r#"{{"amount":{amount}}}"#)).await.expect(201, "00000");
    }

    /// Grants points to the buyer.
    pub(crate) async fn grant_points_to_buyer(&self, points: i64) {
        self.grant(GRANTS, "", &format!(r#"{{"points":{points}}}"#)).await.expect(201, "00000");
    }

    /// Issues a coupon of 5.00 to the buyer.
    pub(crate) async fn coupon(&self, min_spend: &str) -> i64 {
        let terms = format!(r#""discount":5.00,"minSpend":{min_spend},"expiresAt":"2026-03-01T00:00:00Z""#);
        let issued = self.grant(COUPONS, "", &format!(r#"{{"userId":{BUYER},{terms}}}"#)).await;
        issued.expect(201, "00000").id("couponId")
    }

    async fn available(&self, purse: &str) -> Value {
        self.get_data_as(BUYER, purse).await["available"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn operator_grants_money_points_and_coupons() {
    let world = World::new().await;
    let body = r#"{"amount":100.5,"reason":"for order 17"}"#;
    let deposit = world.grant(DEPOSITS, "k-1", body).await.expect(201, "00000");
    assert!(deposit.text.contains(r#""amount":100.50,"balanceAfter":100.50,"#), "{}", deposit.text);
    let money = &deposit.data["amount"];
    let expected = json!({
        "userId": BUYER, "asset": "wallet", "operation": "DEPOSIT", "amount": money, "balanceAfter": money,
        "idempotencyKey": "deposit:8:9:k-1", "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(deposit.data, expected);
    let grant = world.grant(GRANTS, "k-1", r#"{"points":300}"#).await.expect(201, "00000");
    let expected = json!({
        "userId": BUYER, "asset": "points", "operation": "GRANT", "amount": 300, "balanceAfter": 300,
        "idempotencyKey": "grant:8:9:k-1", "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(grant.data, expected);
    let issued = world.grant(COUPONS, "k-1", COUPON).await.expect(201, "00000");
    assert!(issued.text.contains(r#""discount":5.00,"minSpend":20.50,"#), "{}", issued.text);
    let expected = json!({
        "couponId": issued.id("couponId"), "userId": BUYER, "discount": issued.data["discount"],
        "minSpend": issued.data["minSpend"], "expiresAt": "2026-02-28T16:00:00.000000Z", "status": "AVAILABLE",
        "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(issued.data, expected);
    let audit = world.get_as_operator("/api/v1/ops/audit").send().await.expect(200, "00000");
    let items = audit.data["items"].as_array().unwrap().iter();
    let entries: Vec<Value> = items.map(|item| json!([item["action"], item["reason"]])).collect();
    let entry = |action: &str, reason: Value| json!([action, reason]);
    assert_eq!(
        entries,
        [
            entry("coupon.issue", json!(null)),
            entry("points.grant", json!(null)),
            entry("wallet.deposit", json!("for order 17"))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn grant_takes_effect_once_per_key_and_on_every_request_without_key() {
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
        let first = world.grant(path, "k-1", body).await.expect(201, "00000").data;
        assert_eq!(world.grant(path, "k-1", body).await.expect(201, "00000").data, first, "{path}");
        let reused = world.grant(path, "k-1", other).await.expect(422, "A0422");
        assert_eq!(
            (reused.message.as_str(), &reused.data),
            ("the idempotency key was used for another request", &Value::Null)
        );
    }
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    let deposit = world.post(DEPOSITS).token(&other_tenant).header("x-idempotency-key", "k-1");
    deposit.json(r#"{"amount":7.00}"#).send().await.expect(201, "00000");
    assert_eq!(world.available("points").await, 10);
    assert_eq!(world.available("wallet").await.to_string(), "10.00", "keys are scoped by tenant");
    let other_user = world.grant("/api/v1/ops/wallets/9/deposits", "k-1", r#"{"amount":7.00}"#).await;
    other_user.expect(201, "00000");
    assert_eq!(world.available("wallet").await.to_string(), "10.00", "keys are scoped by user");
    let colleague = world.token(11, 1, &[Role::Operator]);
    let deposit = world.post(DEPOSITS).token(&colleague).header("x-idempotency-key", "k-1");
    deposit.json(r#"{"amount":10.00}"#).send().await.expect(201, "00000");
    assert_eq!(world.available("wallet").await.to_string(), "20.00", "keys are scoped by operator");
    world.deposit_to_buyer("10.00").await;
    world.deposit_to_buyer("10.00").await;
    assert_eq!(world.available("wallet").await.to_string(), "40.00");
    // The stored response expires after a day; the key in the ledger does not.
    tokio::time::advance(std::time::Duration::from_secs(25 * 60 * 60)).await;
    world.grant(DEPOSITS, "k-1", r#"{"amount":10.00}"#).await.expect(201, "00000");
    assert_eq!(world.available("wallet").await.to_string(), "40.00");
}

#[tokio::test(start_paused = true)]
async fn longest_key_is_accepted_and_coupon_expiry_is_truncated_to_microseconds() {
    let world = World::new().await;
    let longest = "k".repeat(255);
    for (path, body) in [(DEPOSITS, r#"{"amount":0.01}"#), (GRANTS, r#"{"points":1}"#), (COUPONS, COUPON)] {
        world.grant(path, &longest, body).await.expect(201, "00000");
    }
    let body = r#"{"userId":8,"discount":9999999.99,"expiresAt":"2026-12-31T23:59:59.123456789Z"}"#;
    let first = world.grant(COUPONS, "k-2", body).await.expect(201, "00000");
    assert_eq!(first.data["expiresAt"], "2026-12-31T23:59:59.123456Z");
    assert_eq!(first.data["minSpend"].to_string(), "0.00");
    assert_eq!(world.grant(COUPONS, "k-2", body).await.expect(201, "00000").data, first.data);
}

#[tokio::test(start_paused = true)]
async fn grant_with_invalid_fields_reports_every_field() {
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
        let response = world.grant(path, "", &body).await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), fields, "{path} {body}");
    }
    let response = world.grant(DEPOSITS, "a b", r#"{"amount":1}"#).await.expect(400, "A0400");
    assert_eq!(response.wrong_fields(), ["X-Idempotency-Key"]);
    assert_eq!(world.get_data_as(BUYER, "wallet").await["entries"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn grants_require_an_operator_of_the_tenant_and_a_valid_user() {
    let world = World::new().await;
    for path in [
        "/api/v1/ops/wallets/0/deposits",
        "/api/v1/ops/wallets/x/deposits",
        "/api/v1/ops/wallets/08/deposits",
    ] {
        let response = world.grant(path, "", r#"{"amount":1}"#).await.expect(404, "A0404");
        assert_eq!(response.message, "no such user");
    }
    let platform = world.token(OTHER_USER, 1, &[Role::Platform]);
    world.post(DEPOSITS).token(&platform).json(r#"{"amount":1}"#).send().await.expect(403, "A0303");
    world.post_as(BUYER, DEPOSITS).json(r#"{"amount":1}"#).send().await.expect(403, "A0303");
}

#[tokio::test(start_paused = true)]
async fn grant_beyond_maximum_balance_is_rejected() {
    let world = World::new().await;
    for (path, purse, body, field) in [
        (DEPOSITS, Purse::Wallet, r#"{"amount":0.01}"#, "amount"),
        (GRANTS, Purse::Points, r#"{"points":1}"#, "points"),
    ] {
        let now = world.app.tx.now();
        let filled = with_tx(&world.app.tx, (), move |unit, (), _| {
            Box::pin(async move {
                let users = [(TenantId::DEFAULT, UserId::try_from(BUYER).unwrap())];
                let balance = unit.lock_balances(purse, &users, now).await?.pop().unwrap();
                let full = Balance { available: (1 << 53) - 1, version: balance.version + 1, ..balance };
                unit.put_balances(&[full]).await
            })
        });
        filled.await.unwrap();
        let response = world.grant(path, "", body).await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), [field]);
        let full = world.get_data_as(BUYER, purse.as_str()).await;
        assert_eq!(full["entries"], json!([]));
    }
}
