//! Deliveries whose retention time is over.

use handover_outbox::jobs::Job as _;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

async fn run(world: &World) {
    WebhookRetention::new(&world.webhooks.outbox, 30 * DAY).run(None).await.unwrap();
}

async fn states(world: &World, endpoint: &WebhookEndpoint) -> Vec<DeliveryState> {
    world.deliveries(endpoint.id).await.iter().map(|delivery| delivery.state).collect()
}

#[tokio::test(start_paused = true)]
async fn ended_deliveries_are_deleted_after_their_retention_time_and_dead_ones_stay() {
    let world = World::new();
    let dead = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 1).await;
    world.fail().await;
    let healthy = world.create(to("https://b.example", &["*"])).await;
    for number in 0..520 {
        world.event(&format!("sent-{number}"), 1_000 + number).await;
    }
    while world.dispatch().await > 0 {}
    let before = world.deliveries(healthy.id).await.len();
    world.tx.sleep(29 * DAY).await;
    run(&world).await;
    assert_eq!(world.deliveries(healthy.id).await.len(), before, "the retention time is not over");
    world.event("young", 5).await;
    world.dispatch().await;
    world.tx.sleep(2 * DAY).await;
    run(&world).await;
    let left = world.only_delivery(healthy.id).await;
    assert_eq!(left.event_id.as_str(), "young");
    assert_eq!(world.attempts(&left).await.len(), 1);
    assert!(states(&world, &dead).await.contains(&DeliveryState::Dead));
}

#[tokio::test(start_paused = true)]
async fn deliveries_of_endpoint_that_has_long_been_disabled_are_cancelled_and_audited() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    let enabled = world.create(to("https://b.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.webhooks.disable(&operator(TENANT), endpoint.id, None).await.unwrap();
    world.tx.sleep(29 * DAY).await;
    run(&world).await;
    assert_eq!(states(&world, &endpoint).await, [DeliveryState::Pending]);
    world.tx.sleep(2 * DAY).await;
    run(&world).await;
    assert_eq!(states(&world, &endpoint).await, [DeliveryState::Cancelled]);
    assert_eq!(states(&world, &enabled).await, [DeliveryState::Pending]);
    run(&world).await;
    let mut view = world.tx.view().await.unwrap();
    let entries = view.outbox_view().audit_page(&AuditFilter::default(), None, 100).await.unwrap();
    let cancelled: Vec<_> = entries.iter().filter(|entry| entry.effect.action == "webhooks.cancel").collect();
    assert_eq!(cancelled.len(), 1, "{entries:?}");
    let entry = &cancelled[0].effect;
    assert_eq!((entry.changed, entry.tenant, entry.actor.as_str()), (1, TENANT, "WebhookRetention"));
    assert!(entry.selection.contains(&endpoint.id.to_string()), "{entry:?}");
}

#[tokio::test(start_paused = true)]
async fn many_deliveries_of_a_disabled_endpoint_are_cancelled_in_batches_that_are_audited() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    for number in 0..1_010 {
        world.event(&format!("event-{number}"), number).await;
    }
    world.webhooks.disable(&operator(TENANT), endpoint.id, None).await.unwrap();
    world.tx.sleep(31 * DAY).await;
    run(&world).await;
    let pending = DeliveryFilter { state: Some(DeliveryState::Pending), ..DeliveryFilter::default() };
    let left = world.webhooks.deliveries(&operator(TENANT), endpoint.id, &pending, None, 1).await.unwrap();
    assert_eq!(left.items, []);
    let mut view = world.tx.view().await.unwrap();
    let entries = view.outbox_view().audit_page(&AuditFilter::default(), None, 100).await.unwrap();
    let cancelled = entries.iter().filter(|entry| entry.effect.action == "webhooks.cancel");
    assert_eq!(cancelled.map(|entry| entry.effect.changed).collect::<Vec<_>>(), [10, 500, 500]);
}
