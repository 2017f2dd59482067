//! Effects of results on the health of their endpoint.

use super::*;
use handover_outbox::dispatch::Dispatch as _;

const TEN: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// Claims the due deliveries and sends them.
async fn attempted(dispatcher: &WebhookDispatcher) -> Vec<(DeliveryInProgress, Recording)> {
    let mut outcomes = Vec::new();
    for claimed in dispatcher.claim(TEN).await.unwrap() {
        let recording = dispatcher.carry_out(&claimed).await;
        outcomes.push((claimed, recording));
    }
    outcomes
}

#[tokio::test(start_paused = true)]
async fn result_of_an_ended_claim_does_not_change_the_endpoint() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let dispatcher = world.dispatcher();
    world.replies([Reply::Status(410), Reply::Status(410)]);
    let late = attempted(&dispatcher).await;
    world.tx.sleep(Duration::from_secs(40)).await;
    assert_eq!(world.dispatch().await, 1, "the claim has ended");
    assert_eq!(world.endpoint(endpoint.id).await.status, EndpointStatus::Disabled);
    let enabled = world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap();
    dispatcher.record(&late).await.unwrap();
    assert_eq!(world.endpoint(endpoint.id).await, enabled);
    assert_eq!(world.outbox_types().await, ["WEBHOOK_ENDPOINT_DISABLED"]);
}

#[tokio::test(start_paused = true)]
async fn result_that_is_recorded_again_is_counted_once() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let dispatcher = world.dispatcher();
    world.replies([Reply::Status(500)]);
    let outcomes = attempted(&dispatcher).await;
    for _ in 0..2 {
        dispatcher.record(&outcomes).await.unwrap();
        assert_eq!(world.endpoint(endpoint.id).await.health.failures, 1);
    }
    assert_eq!(world.only_delivery(endpoint.id).await.attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn of_two_results_of_a_delivery_the_one_of_the_latest_claim_counts() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let dispatcher = world.dispatcher();
    world.replies([Reply::Status(410), Reply::Status(200)]);
    let mut outcomes = attempted(&dispatcher).await;
    world.tx.sleep(Duration::from_secs(40)).await;
    outcomes.extend(attempted(&dispatcher).await);
    assert_eq!(outcomes.len(), 2);
    dispatcher.record(&outcomes).await.unwrap();
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Delivered);
    let after = world.endpoint(endpoint.id).await;
    assert_eq!((after.status, after.health.failures), (EndpointStatus::Enabled, 0));
}

#[tokio::test(start_paused = true)]
async fn success_resets_failures_that_were_recorded_after_its_claim() {
    let world = World::new();
    let many = EndpointChange { max_in_flight: Some(10), ..to("https://a.example", &["*"]) };
    let endpoint = world.create(many).await;
    world.event("event-0", 4).await;
    world.dispatch().await;
    world.event("event-1", 5).await;
    world.event("event-2", 6).await;
    let dispatcher = world.dispatcher();
    world.replies([Reply::Status(500), Reply::Status(200)]);
    let outcomes = attempted(&dispatcher).await;
    assert_eq!(outcomes.len(), 2);
    dispatcher.record(&outcomes[..1]).await.unwrap();
    assert!(world.endpoint(endpoint.id).await.health.failing_since.is_some());
    dispatcher.record(&outcomes[1..]).await.unwrap();
    assert_eq!(world.endpoint(endpoint.id).await.health.failing_since, None);
}

#[tokio::test(start_paused = true)]
async fn endpoint_with_a_success_since_its_first_failure_is_not_disabled() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    let since = world.tx.now();
    world.event("event-1", 5).await;
    world.dispatch().await;
    // A success at the same time did not see the failure.
    let failing = EndpointHealth { failing_since: Some(since), failures: 1, ..EndpointHealth::default() };
    let key = endpoint.key();
    with_tx(&world.tx, failing, move |unit, failing, _| {
        Box::pin(async move {
            unit.outbox().lock_webhook_endpoint(Some(key.tenant), key.id).await?;
            unit.outbox().set_webhook_health(key, failing).await
        })
    })
    .await
    .unwrap();
    world.tx.sleep(Duration::from_secs(6 * 24 * 3600)).await;
    world.event("event-2", 6).await;
    world.replies([Reply::Status(500)]);
    world.dispatch().await;
    let after = world.endpoint(key.id).await;
    assert_eq!((after.status, after.health.failures), (EndpointStatus::Enabled, 1));
    assert_eq!(after.health.failing_since, Some(world.tx.now()));
}

#[tokio::test(start_paused = true)]
async fn answer_that_the_endpoint_is_gone_concerns_only_the_url_of_the_request() {
    let world = World::new();
    let endpoint = world.create(to("https://old.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::Status(410)]);
    let dispatcher = world.dispatcher();
    let outcomes = attempted(&dispatcher).await;
    let change = EndpointChange { url: Some("https://new.example".to_owned()), ..EndpointChange::default() };
    world.webhooks.update(&operator(TENANT), endpoint.id, change).await.unwrap();
    dispatcher.record(&outcomes).await.unwrap();
    assert_eq!(world.endpoint(endpoint.id).await.status, EndpointStatus::Enabled);
    drop(outcomes);
    assert_eq!(world.dispatch().await, 1, "the delivery is sent to the new URL");
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Delivered);
}
