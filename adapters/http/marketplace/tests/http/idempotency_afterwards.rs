//! Multi-transaction requests: the response is stored afterwards, and the keys are kept outside of the database.

use std::sync::Arc;

use handover_outbox::ports::StoreError;
use marketplace::Role;
use marketplace::ports::{IdempotencyError, MockIdempotencyStore, RequestRecord};

use crate::access::routes;
use crate::world::{FailingStore, OTHER_USER, Setup, World};

const KEY: &str = "x-idempotency-key";
const REDRIVE: &str = "/api/v1/ops/outbox/redrive";

/// Routes that use more than one transaction.
const AFTERWARDS: [&str; 16] = [
    "POST /api/v1/ops/alerts/1/acknowledge",
    "POST /api/v1/ops/blocked/Order/1/release",
    "POST /api/v1/ops/dead-letters/discard",
    "POST /api/v1/ops/dead-letters/replay",
    "POST /api/v1/ops/outbox/archive",
    "POST /api/v1/ops/outbox/redrive",
    "POST /api/v1/ops/outbox/restore",
    "POST /api/v1/ops/reconciliation/repair",
    "POST /api/v1/ops/users/1/erasure",
    "POST /api/v1/webhooks",
    "POST /api/v1/webhooks/1/deliveries/1/redeliver",
    "POST /api/v1/webhooks/1/disable",
    "POST /api/v1/webhooks/1/enable",
    "POST /api/v1/webhooks/1/recover",
    "POST /api/v1/webhooks/1/rotate-secret",
    "POST /api/v1/webhooks/1/test",
];

fn unavailable<T>() -> Result<T, IdempotencyError> {
    Err(IdempotencyError::Unavailable("hush".into()))
}

async fn world(keys: MockIdempotencyStore) -> World {
    World::with(Setup { keys: Some(Arc::new(keys)), ..Setup::default() }).await
}

/// Ends the tasks, which own references to the mock: the mock checks its calls when it is dropped.
async fn check_calls(world: World) {
    world.app.tx.tasks().stop().await;
}

/// Calls every POST route of the router, with every role.
#[tokio::test(start_paused = true)]
async fn only_multi_transaction_routes_use_the_separate_key_store() {
    let mut keys = MockIdempotencyStore::new();
    for route in AFTERWARDS {
        let is_route = move |claim: &RequestRecord| claim.scope.route == route;
        keys.expect_claim().withf(is_route).once().returning(|_| unavailable());
    }
    let world = world(keys).await;
    let token = world.token(OTHER_USER, 1, &[Role::User, Role::Operator, Role::Platform]);
    let posts: Vec<String> = routes(&world.router)
        .into_iter()
        .filter(|(method, _)| method == "POST")
        .map(|(_, path)| path.replace("{aggregateType}", "Order"))
        .map(|path| {
            ["{alert}", "{id}", "{userId}", "{aggregateId}", "{deliveryId}"]
                .iter()
                .fold(path, |path, name| path.replace(name, "1"))
        })
        .collect();
    assert!(posts.len() > 15, "{posts:?}");
    for path in posts {
        let refused = world.post(&path).token(&token).header(KEY, "k").json("{}").send().await;
        // An unexpected call of the mock panics.
        assert_ne!(refused.status, 500, "{path}");
        let uses_key_store = AFTERWARDS.contains(&format!("POST {path}").as_str());
        assert_eq!(refused.status == 503, uses_key_store, "{path}: {}", refused.text);
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_key_store_is_503_and_request_changes_nothing() {
    let mut keys = MockIdempotencyStore::new();
    keys.expect_claim().times(2).returning(|_| unavailable());
    let world = world(keys).await;
    // Routes that store their response in their own transaction do not use the key store, so they succeed.
    world.order().await;
    world.run_until_idle().await;
    let redrive = || world.post_as_operator(REDRIVE).json(r#"{"filter":{"status":"SENT"},"reason":"again"}"#);
    let refused = redrive().header(KEY, "k").send().await.expect(503, "C0001");
    assert_eq!((&refused.headers["retry-after"], refused.data.is_null()), (&"5".parse().unwrap(), true));
    assert!(
        refused.message.contains("nothing was done") && refused.message.contains("same key"),
        "{}",
        refused.text
    );
    assert!(!refused.text.contains("hush"));
    let chinese = redrive().header(KEY, "k").header("accept-language", "zh-CN").send().await;
    assert!(chinese.expect(503, "C0001").message.contains("操作未执行"));
    assert_eq!(world.audited_changes().await.len(), 0);
    redrive().send().await.expect(200, "00000");
    assert_eq!(world.audited_changes().await.len(), 1);
    check_calls(world).await;
}

/// The command may have taken effect; a call of the mock that would release the key is unexpected.
#[tokio::test(start_paused = true)]
async fn key_stays_claimed_if_the_outcome_is_unknown() {
    let mut keys = MockIdempotencyStore::new();
    keys.expect_claim().once().returning(|_| Ok(None));
    let store = FailingStore(|| StoreError::CommitUnknown("no reply".into()));
    let setup = Setup { keys: Some(Arc::new(keys)), store: Some(Arc::new(store)), ..Setup::default() };
    let world = World::with(setup).await;
    let body = r#"{"filter":{"status":"SENT"},"reason":"again"}"#;
    world.post_as_operator(REDRIVE).header(KEY, "k").json(body).send().await.expect(504, "C0002");
    check_calls(world).await;
}

#[tokio::test(start_paused = true)]
async fn response_is_returned_if_it_cannot_be_stored() {
    let mut keys = MockIdempotencyStore::new();
    keys.expect_claim().times(2).returning(|_| Ok(None));
    keys.expect_store_response().once().returning(|_, _| unavailable());
    keys.expect_release().once().returning(|_, _| unavailable());
    let world = world(keys).await;
    world.order().await;
    world.run_until_idle().await;
    let body = r#"{"filter":{"status":"SENT"},"reason":"again"}"#;
    let done = world.post_as_operator(REDRIVE).header(KEY, "k").json(body).send().await.expect(200, "00000");
    assert!(!done.headers.contains_key("idempotent-replayed"));
    assert_eq!(world.audited_changes().await.len(), 1);
    let invalid = world.post_as_operator(REDRIVE).header(KEY, "k").json("{}").send().await;
    invalid.expect(400, "A0400");
    check_calls(world).await;
}
