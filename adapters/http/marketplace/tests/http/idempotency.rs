//! Idempotency keys (spec §4; document 003 §2).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use handover_events::TenantId;
use marketplace::Role;
use marketplace::idempotency::{ClaimOutcome, IdempotentRequest, RequestSettings, UnitClaim};
use marketplace::jobs::RequestSweep;
use marketplace::ports::RequestScope;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::client::{ApiResponse, Request};
use crate::world::{BUYER, OTHER_USER, SELLER, World};

const KEY: &str = "x-idempotency-key";
const PRODUCTS: &str = "/api/v1/products";
const LAMP: &str = r#"{"title":"a lamp","price":88.50}"#;
const REPLAYED: &str = "idempotent-replayed";

impl World {
    fn listing(&self, user: i64, key: &str) -> Request {
        self.post_as(user, PRODUCTS).header(KEY, key).json(LAMP)
    }

    async fn products(&self) -> usize {
        let shown = self.get_as(BUYER, "/api/v1/products?limit=100").send().await.expect(200, "00000");
        shown.data["items"].as_array().unwrap().len()
    }

    /// Claims in this process the idempotency key of a request that lists a product, as if another request with this key were in
    /// progress.
    async fn claimed(&self, key: &str, body_hash: &str) -> UnitClaim {
        let scope = RequestScope {
            tenant: TenantId::DEFAULT,
            user: SELLER.try_into().unwrap(),
            route: format!("POST {PRODUCTS}"),
            key: key.to_owned(),
        };
        let request = IdempotentRequest { scope, body_hash: body_hash.to_owned(), trace_id: "t".to_owned() };
        match self.app.idempotency.begin(request).await.unwrap() {
            ClaimOutcome::New(claim) => claim,
            ClaimOutcome::Replayed(stored) => panic!("a response is already stored: {stored:?}"),
        }
    }
}

const REDRIVE: &str = "/api/v1/ops/outbox/redrive";

impl World {
    /// Claims the key of a redrive in the database, as if another process were executing the request.
    async fn claimed_elsewhere(&self, key: &str, body: &[u8]) {
        let scope = RequestScope {
            tenant: TenantId::DEFAULT,
            user: OTHER_USER.try_into().unwrap(),
            route: format!("POST {REDRIVE}"),
            key: key.to_owned(),
        };
        let request = IdempotentRequest { scope, body_hash: hash(body), trace_id: "t".to_owned() };
        let begun = self.app.idempotency.begin_with_deferred_response(request).await.unwrap();
        assert!(matches!(begun, ClaimOutcome::New(_)), "{begun:?}");
    }
}

fn is_replayed(response: &ApiResponse) -> bool {
    response.headers.contains_key(REPLAYED)
}

#[tokio::test(start_paused = true)]
async fn repeated_request_gets_stored_response_and_has_no_effect() {
    let world = World::new().await;
    let first = world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert!(!is_replayed(&first));
    let reformatted = "{ \"price\": 88.5,\n \"title\": \"a \\u006camp\" }";
    for body in [LAMP, reformatted] {
        let again = world.post_as(SELLER, PRODUCTS).header(KEY, "k").json(body).send().await;
        let again = again.expect(201, "00000");
        assert_eq!((&again.data, &again.headers[REPLAYED]), (&first.data, &"true".parse().unwrap()));
        assert_ne!(again.trace_id, first.trace_id);
        assert!(again.text.contains("88.50"), "{}", again.text);
    }
    assert_eq!(world.products().await, 1);
}

#[tokio::test(start_paused = true)]
async fn same_key_with_another_body_is_422() {
    let world = World::new().await;
    world.listing(SELLER, "k").send().await.expect(201, "00000");
    for body in [r#"{"title":"a lamp","price":88.51}"#, r#"{"title":"a lamb","price":88.50}"#] {
        let other = world.post_as(SELLER, PRODUCTS).header(KEY, "k").json(body).send().await;
        assert!(!is_replayed(&other.expect(422, "A0422")));
    }
    // The fields of an invalid body are named first.
    for body in ["{}", ""] {
        world.post_as(SELLER, PRODUCTS).header(KEY, "k").json(body).send().await.expect(400, "A0400");
    }
    assert_eq!(world.products().await, 1);
}

/// The SHA-256 of a text, in hex.
fn hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(start_paused = true)]
async fn equivalent_json_bodies_have_the_same_hash() {
    let world = World::new().await;
    let shortest: &[u8] = br#"{"a":1,"b":{"c":[1.5,"x"],"d":null}}"#;
    world.claimed_elsewhere("k", shortest).await;
    let reformatted = " { \"b\" : {\"d\":null, \"c\":[1.50,\"\\u0078\"]},\n\"a\" : 1.00 } ";
    for body in [std::str::from_utf8(shortest).unwrap(), reformatted] {
        let request = world.post_as_operator(REDRIVE).header(KEY, "k").json(body);
        request.send().await.expect(409, "A0401");
    }
}

#[tokio::test(start_paused = true)]
async fn different_bodies_have_different_hashes() {
    let world = World::new().await;
    let bodies = [
        "",
        "{}",
        "[]",
        "{\"a\":1}",
        "{\"a\":10}",
        "{\"a\":\"1\"}",
        "{\"a\":[1,2]}",
        "{\"a\":[2,1]}",
        "{\"a\":",
    ];
    for (n, claimed) in bodies.iter().enumerate() {
        let key = format!("k{n}");
        world.claimed_elsewhere(&key, claimed.as_bytes()).await;
        for body in bodies {
            let (status, code) = if body == *claimed { (409, "A0401") } else { (422, "A0422") };
            let request = world.post_as_operator(REDRIVE).header(KEY, &key).json(body);
            request.send().await.expect(status, code);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn key_is_scoped_by_user_tenant_and_route() {
    let world = World::new().await;
    world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert!(!is_replayed(&world.listing(BUYER, "k").send().await.expect(201, "00000")));
    let other_tenant = world.post(PRODUCTS).token(&world.token(SELLER, 2, &[Role::User]));
    assert!(!is_replayed(&other_tenant.header(KEY, "k").json(LAMP).send().await.expect(201, "00000")));
    let hidden = [1, 1].map(|id| format!("{PRODUCTS}/{id}/off-shelf"));
    let hide = |path: &str| world.post_as(SELLER, path).header(KEY, "k").json("{}");
    assert!(!is_replayed(&hide(&hidden[0]).send().await.expect(200, "00000")));
    assert!(is_replayed(&hide(&hidden[1]).send().await.expect(200, "00000")));
    world
        .post_as(BUYER, &format!("{PRODUCTS}/2/off-shelf"))
        .header(KEY, "k")
        .send()
        .await
        .expect(200, "00000");
}

#[tokio::test(start_paused = true)]
async fn rejected_request_releases_its_key() {
    let world = World::new().await;
    let product = world.product().await;
    let order = |user: i64, product: i64| {
        let request = world.post("/api/v1/orders").token(&world.token(user, 1, &[Role::User]));
        request.header(KEY, "k").json(json!({ "productId": product }).to_string())
    };
    order(SELLER, product).send().await.expect(403, "A0303");
    order(SELLER, 4711).send().await.expect(404, "A0404");
    let invalid = world.post_as(SELLER, PRODUCTS).header(KEY, "k").json("{}").send().await;
    assert_eq!(invalid.expect(400, "A0400").wrong_fields(), ["title", "price"]);
    world.listing(SELLER, "k").send().await.expect(201, "00000");
    order(BUYER, product).send().await.expect(201, "00000");
}

#[tokio::test(start_paused = true)]
async fn orders_and_payments_require_an_idempotency_key() {
    let world = World::new().await;
    let order = world.order().await;
    let body = json!({ "productId": world.product().await }).to_string();
    for (path, body) in
        [("/api/v1/orders".to_owned(), body.as_str()), (format!("/api/v1/orders/{order}/payments"), "{}")]
    {
        let unkeyed = world.post(&path).token(&world.token(BUYER, 1, &[Role::User])).json(body).send().await;
        assert_eq!(unkeyed.expect(400, "A0400").wrong_fields(), ["X-Idempotency-Key"]);
    }
}

#[tokio::test(start_paused = true)]
async fn idempotency_key_header_of_ietf_draft_is_an_alias() {
    let world = World::new().await;
    world.listing(SELLER, "k").send().await.expect(201, "00000");
    let by_draft = world.post_as(SELLER, PRODUCTS).header("Idempotency-Key", "k").json(LAMP).send().await;
    assert!(is_replayed(&by_draft.expect(201, "00000")));
    let both = |other: &str| world.listing(SELLER, "k").header("idempotency-key", other);
    assert!(is_replayed(&both("k").send().await.expect(201, "00000")));
    let two = both("other").send().await.expect(400, "A0400");
    assert_eq!(two.wrong_fields(), ["X-Idempotency-Key"]);
}

#[tokio::test(start_paused = true)]
async fn repeated_request_is_409_while_first_is_in_progress() {
    let world = World::new().await;
    let claim = world.claimed("k", &hash_of_lamp(&world).await).await;
    let busy = world.listing(SELLER, "k").header("accept-language", "zh-CN").send().await;
    let busy = busy.expect(409, "A0401");
    assert_eq!(
        (busy.message.as_str(), &busy.headers["retry-after"]),
        ("请求处理中,请勿重复提交", &"1".parse().unwrap())
    );
    drop(claim);
    let first = world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert!(!is_replayed(&first));
    let again = world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert_eq!((is_replayed(&again), &again.data), (true, &first.data));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_with_one_key_have_one_effect_and_response() {
    let world = World::new().await;
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..50 {
        requests.spawn(world.listing(SELLER, "k").send());
    }
    let mut first = Vec::new();
    for response in requests.join_all().await {
        if response.status == 409 {
            assert_eq!(response.code, "A0401");
        } else {
            first.push(response.expect(201, "00000").data);
        }
    }
    assert!(!first.is_empty());
    let last = world.listing(SELLER, "k").send().await.expect(201, "00000").data;
    assert!(first.iter().all(|response| *response == last));
    assert_eq!(world.products().await, 1);
}

#[tokio::test(start_paused = true)]
async fn stored_response_is_kept_for_a_day_and_then_deleted() {
    let world = World::new().await;
    let first = world.listing(SELLER, "k").send().await.expect(201, "00000");
    tokio::time::advance(Duration::from_secs(24 * 3600 - 1)).await;
    let sweep =
        RequestSweep { tx: world.app.tx.clone(), interval: RequestSettings::default().sweep_interval };
    assert_eq!(sweep.sweep().await.unwrap(), 0);
    let again = world.token(SELLER, 1, &[Role::User]);
    let again = world.post(PRODUCTS).token(&again).header(KEY, "k").json(LAMP).send().await;
    assert_eq!(again.expect(201, "00000").data, first.data);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(sweep.sweep().await.unwrap(), 1);
    assert!(!is_replayed(&world.listing(SELLER, "k").send().await.expect(201, "00000")));
}

#[tokio::test(start_paused = true)]
async fn stored_response_of_multi_transaction_operator_request_is_replayed() {
    let world = World::new().await;
    world.order().await;
    world.run_until_idle().await;
    let path = "/api/v1/ops/outbox/redrive";
    let redrive = || {
        let body = r#"{"filter":{"status":"SENT"},"reason":"again"}"#;
        world.post_as_operator(path).header(KEY, "k").json(body)
    };
    let first = redrive().send().await.expect(200, "00000");
    let again = redrive().send().await.expect(200, "00000");
    assert_eq!((is_replayed(&first), is_replayed(&again)), (false, true));
    assert_eq!(first.data, again.data);
    let audit = world.get_as_operator("/api/v1/ops/audit").send().await.expect(200, "00000");
    assert_eq!(audit.data["items"].as_array().unwrap().len(), 1);
}

/// Sends a request and drops it after `after` polls.
async fn send_and_disconnect(request: Request, after: usize) {
    let mut sending = pin!(request.send_raw());
    for _ in 0..after {
        let ended = poll_fn(|context| Poll::Ready(sending.as_mut().poll(context).is_ready())).await;
        if ended {
            break;
        }
        tokio::task::yield_now().await;
    }
    // The request is dropped here; its task continues.
}

#[tokio::test(start_paused = true)]
async fn client_disconnect_at_any_point_leaves_one_effect_and_its_response() {
    let world = World::new().await;
    world.order().await;
    world.run_until_idle().await;
    let redrive = |key: &str| {
        let body = r#"{"filter":{"status":"SENT"},"reason":"again"}"#;
        world.post_as_operator("/api/v1/ops/outbox/redrive").header(KEY, key).json(body)
    };
    let before = world.products().await;
    for (count, polls) in [1, 2, 3, 5, 8, 13, 21, 34].into_iter().enumerate() {
        let key = format!("k-{polls}");
        send_and_disconnect(world.listing(SELLER, &key), polls).await;
        send_and_disconnect(redrive(&key), polls).await;
        world.app.tx.sleep(Duration::from_secs(1)).await;
        world.listing(SELLER, &key).send().await.expect(201, "00000");
        assert_eq!(world.products().await, before + count + 1, "after {polls}");
        redrive(&key).send().await.expect(200, "00000");
        assert_eq!(world.audited_changes().await.len(), count + 1, "after {polls}");
        world.run_until_idle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn stored_response_is_not_replayed_to_caller_without_operator_role() {
    let world = World::new().await;
    let deposit = |roles: &[Role]| {
        let token = world.token(OTHER_USER, 1, roles);
        let request = world.post("/api/v1/ops/wallets/8/deposits").token(&token).header(KEY, "k");
        request.json(r#"{"amount":10}"#)
    };
    deposit(&[Role::Operator]).send().await.expect(201, "00000");
    deposit(&[Role::User]).send().await.expect(403, "A0303");
    assert!(is_replayed(&deposit(&[Role::Operator]).send().await.expect(201, "00000")));
}

#[tokio::test(start_paused = true)]
async fn unauthorized_request_claims_no_key() {
    let world = World::new().await;
    world.post(PRODUCTS).header(KEY, "k").json(LAMP).send().await.expect(401, "A0301");
    world
        .post_as(OTHER_USER, "/api/v1/ops/coupons")
        .header(KEY, "k")
        .json("{}")
        .send()
        .await
        .expect(403, "A0303");
    assert!(!is_replayed(&world.listing(SELLER, "k").send().await.expect(201, "00000")));
}

/// The stored body hash of [`LAMP`].
async fn hash_of_lamp(world: &World) -> String {
    world.listing(SELLER, "probe").send().await.expect(201, "00000");
    let scope = RequestScope {
        tenant: TenantId::DEFAULT,
        user: SELLER.try_into().unwrap(),
        route: format!("POST {PRODUCTS}"),
        key: "probe".to_owned(),
    };
    let mut view = world.app.tx.view().await.unwrap();
    view.request_of(&scope).await.unwrap().unwrap().body_hash
}
