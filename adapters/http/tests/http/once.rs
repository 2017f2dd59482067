//! Requests under an idempotency key (spec §4; seed 003 §2).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use handover_events::TenantId;
use handover_events::Trace;
use marketplace::idempotency::{Begun, KeyedRequest, Ticket, begin};
use marketplace::jobs::RequestSweep;
use marketplace::ports::RequestScope;
use marketplace::use_cases::{ListProduct, UseCaseError, list_product};
use marketplace::{Actor, CommandContext, Role};
use marketplace_domain::{Money, Title, UserId};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::client::{Answer, Request};
use crate::world::{BUYER, SELLER, STRANGER, World};

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

    /// Somebody else is at work on that listing.
    async fn claimed(&self, key: &str, body_hash: &str) -> Ticket {
        let scope = RequestScope {
            tenant: TenantId::DEFAULT,
            user: SELLER.try_into().unwrap(),
            route: format!("POST {PRODUCTS}"),
            key: key.to_owned(),
        };
        let asked = KeyedRequest { scope, body_hash: body_hash.to_owned(), trace_id: "t".to_owned() };
        match begin(&self.app, asked, |_| Ok("null".to_owned())).await.unwrap() {
            Begun::First(ticket) => ticket,
            Begun::Before(answer) => panic!("it was answered before: {answer:?}"),
        }
    }
}

fn is_replayed(answer: &Answer) -> bool {
    answer.headers.contains_key(REPLAYED)
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_answered_what_the_first_was_and_has_no_effect() {
    let world = World::new().await;
    let first = world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert!(!is_replayed(&first));
    let written_otherwise = "{ \"price\": 88.5,\n \"title\": \"a \\u006camp\" }";
    for body in [LAMP, written_otherwise] {
        let again = world.post_as(SELLER, PRODUCTS).header(KEY, "k").json(body).send().await;
        let again = again.expect(201, "00000");
        assert_eq!((&again.data, &again.headers[REPLAYED]), (&first.data, &"true".parse().unwrap()));
        assert_ne!(again.trace_id, first.trace_id);
        assert!(again.text.contains("88.50"), "{}", again.text);
    }
    assert_eq!(world.products().await, 1);
}

#[tokio::test(start_paused = true)]
async fn another_body_under_the_same_key_is_refused() {
    let world = World::new().await;
    world.listing(SELLER, "k").send().await.expect(201, "00000");
    for body in [r#"{"title":"a lamp","price":88.51}"#, "{}", ""] {
        let other = world.post_as(SELLER, PRODUCTS).header(KEY, "k").json(body).send().await;
        assert!(!is_replayed(&other.expect(422, "A0422")));
    }
    assert_eq!(world.products().await, 1);
}

/// The SHA-256 of a text, in hex.
fn hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(start_paused = true)]
async fn bodies_that_say_the_same_have_one_hash() {
    let world = World::new().await;
    let shortest: &[u8] = br#"{"a":1,"b":{"c":[1.5,"x"],"d":null}}"#;
    let _working = world.claimed("k", &hash(shortest)).await;
    let otherwise = " { \"b\" : {\"d\":null, \"c\":[1.50,\"\\u0078\"]},\n\"a\" : 1.00 } ";
    for body in [std::str::from_utf8(shortest).unwrap(), otherwise] {
        let request = world.post_as(SELLER, PRODUCTS).header(KEY, "k").json(body);
        request.send().await.expect(409, "A0401");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_say_something_else_have_another_hash() {
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
        let _working = world.claimed(&key, &hash(claimed.as_bytes())).await;
        for body in bodies {
            let (status, code) = if body == *claimed { (409, "A0401") } else { (422, "A0422") };
            let request = world.post_as(SELLER, PRODUCTS).header(KEY, &key).json(body);
            request.send().await.expect(status, code);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_of_another_user_tenant_or_route_is_another_request() {
    let world = World::new().await;
    world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert!(!is_replayed(&world.listing(BUYER, "k").send().await.expect(201, "00000")));
    let elsewhere = world.post(PRODUCTS).token(&world.token(SELLER, 2, &[Role::User]));
    assert!(!is_replayed(&elsewhere.header(KEY, "k").json(LAMP).send().await.expect(201, "00000")));
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
async fn a_refusal_frees_its_key() {
    let world = World::new().await;
    let product = world.product().await;
    let order = |user: i64, product: i64| {
        let request = world.post("/api/v1/orders").token(&world.token(user, 1, &[Role::User]));
        request.header(KEY, "k").json(json!({ "productId": product }).to_string())
    };
    order(SELLER, product).send().await.expect(403, "A0303");
    order(SELLER, 4711).send().await.expect(404, "A0404");
    let bad = world.post_as(SELLER, PRODUCTS).header(KEY, "k").json("{}").send().await.expect(400, "A0400");
    assert_eq!(bad.wrong_fields(), ["title", "price"]);
    world.listing(SELLER, "k").send().await.expect(201, "00000");
    order(BUYER, product).send().await.expect(201, "00000");
}

#[tokio::test(start_paused = true)]
async fn orders_and_payments_require_a_key() {
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
async fn the_header_of_the_draft_is_the_same_header() {
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
async fn while_one_is_at_work_repeats_are_told_so_and_its_lease_heals_a_crash() {
    let world = World::new().await;
    let ticket = world.claimed("k", &hash_of_lamp(&world).await).await;
    let busy = world.listing(SELLER, "k").header("accept-language", "zh-CN").send().await;
    let busy = busy.expect(409, "A0401");
    assert_eq!(
        (busy.message.as_str(), &busy.headers["retry-after"]),
        ("请求处理中,请勿重复提交", &"1".parse().unwrap())
    );
    tokio::time::advance(Duration::from_secs(41)).await;
    let healed = world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert!(!is_replayed(&healed));
    // Whoever was overtaken commits nothing any more.
    let late = CommandContext {
        actor: Actor::User { id: UserId::try_from(SELLER).unwrap(), roles: vec![Role::User] },
        tenant: TenantId::DEFAULT,
        trace: Trace { trace_id: "late".to_owned(), traceparent: None },
        idempotency: Some(ticket.clone()),
    };
    let lamp = ListProduct {
        title: Title::try_from("a lamp".to_owned()).unwrap(),
        price: Money::from_minor(8_850).unwrap(),
    };
    let outcome = list_product(&world.app, &late, lamp).await;
    assert!(matches!(outcome, Err(UseCaseError::InProgress)), "{outcome:?}");
    ticket.refused().await.unwrap();
    let again = world.listing(SELLER, "k").send().await.expect(201, "00000");
    assert_eq!((is_replayed(&again), &again.data), (true, &healed.data));
    assert_eq!(world.products().await, 2, "the one whose hash was looked for, and this");
}

#[tokio::test(start_paused = true)]
async fn of_many_at_once_one_has_an_effect_and_all_are_answered_the_same_in_the_end() {
    let world = World::new().await;
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..50 {
        requests.spawn(world.listing(SELLER, "k").send());
    }
    let mut first = Vec::new();
    for answer in requests.join_all().await {
        if answer.status == 409 {
            assert_eq!(answer.code, "A0401");
        } else {
            first.push(answer.expect(201, "00000").data);
        }
    }
    assert!(!first.is_empty());
    let last = world.listing(SELLER, "k").send().await.expect(201, "00000").data;
    assert!(first.iter().all(|answer| *answer == last));
    assert_eq!(world.products().await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_for_a_day_and_then_swept() {
    let world = World::new().await;
    let first = world.listing(SELLER, "k").send().await.expect(201, "00000");
    tokio::time::advance(Duration::from_secs(24 * 3600 - 1)).await;
    let sweep = RequestSweep::new(world.app.clone());
    assert_eq!(sweep.sweep().await.unwrap(), 0);
    let again = world.token(SELLER, 1, &[Role::User]);
    let again = world.post(PRODUCTS).token(&again).header(KEY, "k").json(LAMP).send().await;
    assert_eq!(again.expect(201, "00000").data, first.data);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(sweep.sweep().await.unwrap(), 1);
    assert!(!is_replayed(&world.listing(SELLER, "k").send().await.expect(201, "00000")));
}

#[tokio::test(start_paused = true)]
async fn what_operators_do_in_more_than_one_transaction_is_answered_again_too() {
    let world = World::new().await;
    world.order().await;
    world.settled().await;
    let path = "/api/v1/ops/outbox/redrive";
    let redrive = || {
        let body = r#"{"filter":{"status":"SENT"},"reason":"again"}"#;
        world.post_operating(path).header(KEY, "k").json(body)
    };
    let first = redrive().send().await.expect(200, "00000");
    let again = redrive().send().await.expect(200, "00000");
    assert_eq!((is_replayed(&first), is_replayed(&again)), (false, true));
    assert_eq!(first.data, again.data);
    let audit = world.get_operating("/api/v1/ops/audit").send().await.expect(200, "00000");
    assert_eq!(audit.data["items"].as_array().unwrap().len(), 1);
}

/// Asks, hangs up after the request was polled so often, and waits until everything has come to rest.
async fn hung_up(request: Request, after: usize) {
    let mut asking = pin!(request.send_raw());
    for _ in 0..after {
        let ended = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context).is_ready())).await;
        if ended {
            break;
        }
        tokio::task::yield_now().await;
    }
    // It is dropped at the end of this function; what it began goes on.
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_up_wherever_that_is_finds_one_effect_and_its_answer() {
    let world = World::new().await;
    world.order().await;
    world.settled().await;
    let redrive = |key: &str| {
        let body = r#"{"filter":{"status":"SENT"},"reason":"again"}"#;
        world.post_operating("/api/v1/ops/outbox/redrive").header(KEY, key).json(body)
    };
    let before = world.products().await;
    for (count, polls) in [1, 2, 3, 5, 8, 13, 21, 34].into_iter().enumerate() {
        let key = format!("k-{polls}");
        hung_up(world.listing(SELLER, &key), polls).await;
        hung_up(redrive(&key), polls).await;
        world.app.tx.clock.sleep(Duration::from_secs(1)).await;
        world.listing(SELLER, &key).send().await.expect(201, "00000");
        assert_eq!(world.products().await, before + count + 1, "after {polls}");
        redrive(&key).send().await.expect(200, "00000");
        assert_eq!(world.changes().await.len(), count + 1, "after {polls}");
        world.settled().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_repeated_to_somebody_who_is_no_operator_any_more() {
    let world = World::new().await;
    let give = |roles: &[Role]| {
        let token = world.token(STRANGER, 1, roles);
        let request = world.post("/api/v1/ops/wallets/8/deposits").token(&token).header(KEY, "k");
        request.json(r#"{"amount":10}"#)
    };
    give(&[Role::Operator]).send().await.expect(201, "00000");
    give(&[Role::User]).send().await.expect(403, "A0303");
    assert!(is_replayed(&give(&[Role::Operator]).send().await.expect(201, "00000")));
}

#[tokio::test(start_paused = true)]
async fn whoever_may_not_enter_claims_nothing() {
    let world = World::new().await;
    world.post(PRODUCTS).header(KEY, "k").json(LAMP).send().await.expect(401, "A0301");
    world
        .post_as(STRANGER, "/api/v1/ops/coupons")
        .header(KEY, "k")
        .json("{}")
        .send()
        .await
        .expect(403, "A0303");
    assert!(!is_replayed(&world.listing(SELLER, "k").send().await.expect(201, "00000")));
}

/// The hash that the edge gives [`LAMP`], as the store has it.
async fn hash_of_lamp(world: &World) -> String {
    world.listing(SELLER, "probe").send().await.expect(201, "00000");
    let scope = RequestScope {
        tenant: TenantId::DEFAULT,
        user: SELLER.try_into().unwrap(),
        route: format!("POST {PRODUCTS}"),
        key: "probe".to_owned(),
    };
    let mut view = world.app.view().await.unwrap();
    view.request_of(&scope).await.unwrap().unwrap().body_hash
}
