//! Requests whose answer is kept after what they did, under keys that are elsewhere than in the database.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handover_outbox::ports::Changed;
use marketplace::Role;
use marketplace::ports::{IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, StoredAnswer};

use crate::access::routes;
use crate::world::{STRANGER, Setup, World};

const KEY: &str = "x-idempotency-key";
const REDRIVE: &str = "/api/v1/ops/outbox/redrive";

/// What acts in more than one transaction.
const AFTERWARDS: [&str; 5] = [
    "POST /api/v1/ops/blocked/Order/1/release",
    "POST /api/v1/ops/dead-letters/discard",
    "POST /api/v1/ops/dead-letters/replay",
    "POST /api/v1/ops/outbox/redrive",
    "POST /api/v1/ops/reconciliation/repair",
];

/// Keys in a place that is away; from the beginning, or once one is claimed.
#[derive(Default)]
struct Away {
    after_the_claim: bool,
    asked: Mutex<BTreeSet<String>>,
}

fn away<T>() -> Result<T, IdempotencyError> {
    Err(IdempotencyError::Away("hush".into()))
}

#[async_trait]
impl IdempotencyStore for Away {
    async fn claim(&self, claim: &KeptRequest) -> Result<Option<StoredAnswer>, IdempotencyError> {
        self.asked.lock().unwrap().insert(claim.scope.route.clone());
        if self.after_the_claim { Ok(None) } else { away() }
    }

    async fn conclude(&self, _: &str, _: &KeptRequest) -> Result<Changed, IdempotencyError> {
        away()
    }

    async fn release(&self, _: &RequestScope, _: &str) -> Result<Changed, IdempotencyError> {
        away()
    }
}

async fn world(keys: Arc<Away>) -> World {
    World::with(Setup { keys: Some(keys), ..Setup::default() }).await
}

/// All that the router knows are asked, with every role.
#[tokio::test(start_paused = true)]
async fn of_all_routes_those_that_act_in_more_than_one_transaction_ask_elsewhere_and_no_other() {
    let keys = Arc::<Away>::default();
    let world = world(keys.clone()).await;
    let token = world.token(STRANGER, 1, &[Role::User, Role::Operator, Role::Platform]);
    let posts: Vec<String> = routes(&world.router)
        .into_iter()
        .filter(|(method, _)| method == "POST")
        .map(|(_, path)| path.replace("{aggregateType}", "Order"))
        .map(|path| {
            ["{id}", "{userId}", "{aggregateId}"].iter().fold(path, |path, name| path.replace(name, "1"))
        })
        .collect();
    assert!(posts.len() > 15, "{posts:?}");
    for path in posts {
        let refused = world.post(&path).token(&token).header(KEY, "k").json("{}").send().await;
        let is_elsewhere = AFTERWARDS.contains(&format!("POST {path}").as_str());
        assert_eq!(refused.status == 503, is_elsewhere, "{path}: {}", refused.text);
    }
    assert_eq!(keys.asked.lock().unwrap().iter().collect::<Vec<_>>(), AFTERWARDS.iter().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_asked_for_refuses_before_anything_is_done() {
    let world = world(Arc::default()).await;
    // Whoever keeps answers with what they tell of does not notice.
    world.order().await;
    world.settled().await;
    let redrive = || world.post_operating(REDRIVE).json(r#"{"filter":{"status":"SENT"},"reason":"again"}"#);
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
    assert_eq!(world.changes().await.len(), 0);
    redrive().send().await.expect(200, "00000");
    assert_eq!(world.changes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_answered_though_its_answer_cannot_be_kept() {
    let world = world(Arc::new(Away { after_the_claim: true, ..Away::default() })).await;
    world.order().await;
    world.settled().await;
    let body = r#"{"filter":{"status":"SENT"},"reason":"again"}"#;
    let done = world.post_operating(REDRIVE).header(KEY, "k").json(body).send().await.expect(200, "00000");
    assert!(!done.headers.contains_key("idempotent-replayed"));
    assert_eq!(world.changes().await.len(), 1);
    let wrong = world.post_operating(REDRIVE).header(KEY, "k").json("{}").send().await;
    wrong.expect(400, "A0400");
}
