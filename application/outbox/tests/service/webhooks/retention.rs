//! Deliveries whose retention time is over.

use handover_contract::samples::consumption;
use handover_outbox::jobs::Job as _;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

async fn run(world: &World) {
    WebhookRetention::new(&world.webhooks.outbox, world.webhooks.keep).run(None).await.unwrap();
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

/// Publishes an event. The consumer of webhooks has recorded it, but has written no delivery.
async fn recorded_event(world: &World, id: &str) {
    let now = world.tx.now();
    let event = new_event(TENANT, id, 5, now, PAYLOAD);
    let record = Consumption { consume_time: now, ..consumption(DeliveryWriter::NAME, &event) };
    append(&world.tx, vec![event]).await;
    mark_sent(world, id).await;
    let mut unit = world.tx.begin().await.unwrap();
    unit.outbox().record(&[record]).await.unwrap();
    unit.commit().await.unwrap();
}

/// Only an event that is younger than the retention time, or older than its endpoint, certainly never had a delivery.
#[tokio::test(start_paused = true)]
async fn deleted_delivery_is_not_missing() {
    let world = World::new();
    let since = world.tx.now();
    recorded_event(&world, "before-endpoint").await;
    world.tx.sleep(Duration::from_secs(1)).await;
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.tx.sleep(Duration::from_secs(61)).await;
    recorded_event(&world, "delivered").await;
    world.apply("delivered").await;
    assert_eq!(world.dispatch().await, 1);
    world.tx.sleep(world.webhooks.keep + Duration::from_secs(7_200)).await;
    run(&world).await;
    assert_eq!(states(&world, &endpoint).await, []);
    recorded_event(&world, "lost").await;
    let mut view = world.tx.view().await.unwrap();
    let ids = ["delivered", "lost"].map(|id| id.parse().unwrap());
    let rows = view.outbox_view().outbox_by_event(&ids).await.unwrap();
    let applied: Vec<_> = rows.iter().map(|row| (row, row.create_time)).collect();
    let deleted_before = WebhookRetention::deleted_before(world.tx.now(), world.webhooks.keep);
    let missing = world.webhooks.offer.missing_deliveries(view.outbox_view(), &applied, deleted_before).await;
    let missing: Vec<_> = missing.unwrap().into_iter().map(|(row, _)| rows[row].event_id.as_str()).collect();
    assert_eq!(missing, ["lost"]);
    drop(view);
    world.tx.sleep(Duration::from_secs(1)).await;
    let command = Recover { since, until: None, include_missing: true, after: None, dry_run: false };
    let done = world.webhooks.recover(&operator(TENANT), endpoint.id, command).await.unwrap();
    assert_eq!(done, Recovered { created: 2, ..Recovered::default() });
    let created = world.deliveries(endpoint.id).await;
    let created: Vec<&str> = created.iter().map(|delivery| delivery.event_id.as_str()).collect();
    assert_eq!(created, ["lost", "before-endpoint"]);
}
