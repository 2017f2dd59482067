//! `/api/v1/ops`, `/healthz`, `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_http::{CachedReadiness, Problem, Readiness};
use marketplace::Role;
use serde_json::json;
use tokio::task::JoinSet;

use crate::world::{BUYER, OTHER_USER, SELLER, Setup, World};

const OUTBOX: &str = "/api/v1/ops/outbox";

fn types(data: &serde_json::Value) -> Vec<&str> {
    data["items"].as_array().unwrap().iter().map(|item| item["eventType"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn operator_lists_the_outbox_of_its_tenant() {
    let world = World::new().await;
    let operator = world.token(OTHER_USER, 1, &[Role::Operator]);
    let body = json!({ "productId": world.product().await }).to_string();
    let order = world.post_as(BUYER, "/api/v1/orders").header("x-trace-id", "t-1").json(body).send().await;
    let id = order.id("orderId");
    let page = world.get(OUTBOX).token(&operator).send().await.expect(200, "00000");
    assert_eq!(types(&page.data), ["ORDER_TIMEOUT", "ORDER_CREATED"]);
    let created = &page.data["items"][1];
    let payload = &created["payload"];
    assert_eq!(payload["orderId"], id);
    assert_eq!(
        created,
        &json!({
            "eventId": created["eventId"], "eventType": "ORDER_CREATED", "aggregateType": "Order", "aggregateId": id,
            "aggregateSeq": 1, "tenantId": 1, "status": "NEW", "retryCount": 0, "maxRetryCount": 3,
            "nextRetryTime": null, "lastError": null, "createTime": "2026-01-31T08:00:00.000000Z",
            "updateTime": "2026-01-31T08:00:00.000000Z", "sentTime": null, "releasedTime": null,
            "erasedTime": null, "erasedReason": null, "restoredTime": null, "waitsFor": null, "archiveFile": null, "traceId": "t-1",
            "idleConsumers": ["coupon", "points", "wallet", "webhooks"], "payload": payload
        })
    );
    let one = format!("{OUTBOX}/{}", created["eventId"].as_str().unwrap());
    assert_eq!(&world.get(&one).token(&operator).send().await.expect(200, "00000").data, created);
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    world.get(&one).token(&other_tenant).send().await.expect(404, "A0404");
    let long = "x".repeat(65);
    for id in ["no-such", "%20", "a%20b", "%E5%AD%97", long.as_str()] {
        world.get(&format!("{OUTBOX}/{id}")).token(&operator).send().await.expect(404, "A0404");
    }
}

#[tokio::test(start_paused = true)]
async fn outbox_list_applies_every_filter() {
    let world = World::new().await;
    let platform = world.token(OTHER_USER, 1, &[Role::Platform]);
    let order = world.order().await;
    let about = format!("?aggregateId={order}");
    let cases: [(&str, usize); 16] = [
        ("", 2),
        ("?status=NEW", 2),
        ("?status=SENT", 0),
        ("?eventType=ORDER_CREATED", 1),
        ("?eventType=ORDER_PAID", 0),
        ("?oldest=true", 2),
        ("?oldest=true&status=FAILED", 0),
        (&about, 2),
        ("?aggregateId=-1", 0),
        ("?tenantId=1", 2),
        ("?tenantId=2", 0),
        ("?from=2026-01-31T08:00:00Z", 2),
        ("?from=2026-01-31T08:00:01Z", 0),
        ("?to=2026-01-31T08:00:00Z", 0),
        ("?to=2026-01-31T16:00:01%2B08:00", 2),
        ("?limit=1", 1),
    ];
    for (query, count) in cases {
        let page = world.get(&format!("{OUTBOX}{query}")).token(&platform).send().await.expect(200, "00000");
        assert_eq!(types(&page.data).len(), count, "{query}");
    }
    let first = world.get(&format!("{OUTBOX}?limit=1")).token(&platform).send().await;
    let cursor = first.data["nextCursor"].as_str().unwrap();
    let rest = world.get(&format!("{OUTBOX}?cursor={cursor}")).token(&platform).send().await;
    assert_eq!(types(&rest.data), ["ORDER_CREATED"]);
}

#[tokio::test(start_paused = true)]
async fn outbox_of_another_tenant_requires_role_platform() {
    let world = World::new().await;
    world.order().await;
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    let own = world.get(OUTBOX).token(&other_tenant).send().await.expect(200, "00000");
    assert_eq!(own.data, json!({ "items": [], "nextCursor": null }));
    world.get(&format!("{OUTBOX}?tenantId=1")).token(&other_tenant).send().await.expect(404, "A0404");
    let platform = world.token(OTHER_USER, 2, &[Role::Platform]);
    let all = world.get(OUTBOX).token(&platform).send().await.expect(200, "00000");
    assert_eq!(types(&all.data).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn operator_routes_reject_users_before_reading_input() {
    let world = World::new().await;
    let pii = world.token(SELLER, 1, &[Role::User, Role::Pii]);
    let gets = [
        "outbox",
        "outbox?status=nonsense",
        "outbox/no-such",
        "queues",
        "blocked",
        "dead-letters",
        "consumptions?limit=0",
        "stats",
        "stats/history?since=nonsense",
        "alerts",
        "audit",
        "reconciliation?from=nonsense",
    ];
    for path in gets.map(|path| format!("/api/v1/ops/{path}")) {
        world.get(&path).send().await.expect(401, "A0301");
        world.get_as(SELLER, &path).send().await.expect(403, "A0303");
        world.get(&path).token(&pii).send().await.expect(403, "A0303");
    }
    let posts = [
        "outbox/redrive",
        "blocked/Order/1/release",
        "dead-letters/replay",
        "dead-letters/discard",
        "alerts/queue-depth/acknowledge",
        "wallets/8/deposits",
        "points/8/grants",
        "coupons",
        "reconciliation/repair",
    ];
    for path in posts.map(|path| format!("/api/v1/ops/{path}")) {
        world.post(&path).json("{").send().await.expect(401, "A0301");
        world.post_as(SELLER, &path).json("{").send().await.expect(403, "A0303");
        world.post(&path).token(&pii).json("{").send().await.expect(403, "A0303");
    }
}

#[tokio::test(start_paused = true)]
async fn queues_are_listed_and_unreachable_broker_is_503() {
    let world = World::new().await;
    let operator = world.token(OTHER_USER, 1, &[Role::Operator]);
    let page = world.get("/api/v1/ops/queues").token(&operator).send().await.expect(200, "00000");
    let queues = page.data["items"].as_array().unwrap();
    assert!(!queues.is_empty());
    let name = &queues[0]["name"];
    assert_eq!(queues[0], json!({ "name": name, "ready": 0, "unacked": 0, "consumers": 0 }));
    world.broker.set_reachable(false);
    let refused = world.get("/api/v1/ops/queues").token(&operator).send().await.expect(503, "C0001");
    assert_eq!(refused.headers["retry-after"], "5");
}

#[tokio::test(start_paused = true)]
async fn health_checks_report_liveness_and_readiness_problems() {
    let world = World::new().await;
    world.get("/healthz").send().await.expect(200, "00000");
    world.get("/readyz").send().await.expect(200, "00000");
    let problem = || vec![Problem { part: "database".into(), what: "not migrated".into() }];
    let world = World::with(Setup { readiness: Arc::new(problem), ..Setup::default() }).await;
    world.get("/healthz").send().await.expect(200, "00000");
    let response = world.get("/readyz").send().await.expect(503, "C0001");
    assert_eq!(response.data, json!({ "problems": [{ "part": "database", "what": "not migrated" }] }));
}

/// A readiness check that counts its calls and reports a problem from the second call on.
struct Counting(Arc<AtomicUsize>);

#[async_trait]
impl Readiness for Counting {
    #[allow(clippy::disallowed_methods, reason = "simulates a slow database, in paused time")]
    async fn problems(&self) -> Vec<Problem> {
        let calls = self.0.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        if calls == 0 { Vec::new() } else { vec![Problem { part: "database".into(), what: "gone".into() }] }
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_check_runs_at_most_ten_times_per_second() {
    let calls = Arc::new(AtomicUsize::new(0));
    let readiness = Arc::new(CachedReadiness::new(Counting(Arc::clone(&calls))));
    let world = World::with(Setup { readiness, ..Setup::default() }).await;
    let all: JoinSet<_> = (0..64).map(|_| world.get("/readyz").send()).collect();
    for response in all.join_all().await {
        response.expect(200, "00000");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    tokio::time::advance(CachedReadiness::<Counting>::CACHE_TTL).await;
    let all: JoinSet<_> = (0..64).map(|_| world.get("/readyz").send()).collect();
    for response in all.join_all().await {
        response.expect(503, "C0001");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
