//! Events that no endpoint asks for.

use super::*;

/// For each event, whether the offer excludes the consumer of webhooks.
async fn excluded(world: &World, events: Vec<NewEvent>) -> Vec<bool> {
    let offer = &world.webhooks.offer;
    let mut unit = world.tx.begin().await.unwrap();
    let mut events = events;
    offer.exclude_without_receiver(unit.outbox(), &mut events).await.unwrap();
    events.iter().map(|event| event.idle_consumers.contains(DeliveryWriter::NAME)).collect()
}

#[tokio::test(start_paused = true)]
async fn event_that_no_endpoint_of_its_tenant_asks_for_is_not_delivered_to_webhooks() {
    let world = World::new();
    let at = world.tx.now();
    let other: TenantId = 2.try_into().unwrap();
    let of_type = |event_type: &str, tenant: TenantId| NewEvent {
        event_type: event_type.to_owned(),
        ..new_event(tenant, event_type, 5, at, PAYLOAD)
    };
    let events =
        || vec![of_type("BOOK_LENT", TENANT), of_type("BOOK_LOST", TENANT), of_type("BOOK_LENT", other)];
    assert_eq!(excluded(&world, events()).await, [true, true, true]);
    let lent = world.create(to("https://a.example", &["book.lent"])).await;
    assert_eq!(excluded(&world, events()).await, [false, true, true]);
    world.create(to("https://b.example", &["book.*"])).await;
    assert_eq!(excluded(&world, events()).await, [false, false, true]);
    assert_eq!(excluded(&world, vec![of_type("NOT_OFFERED", other)]).await, [false], "not its event");
    let about_itself = NewEvent {
        aggregate: AggregateRef { tenant: TENANT, kind: "Webhook".to_owned(), id: lent.id.0.into() },
        ..of_type("WEBHOOK_ENDPOINT_DISABLED", TENANT)
    };
    assert_eq!(excluded(&world, vec![about_itself]).await, [true]);
}

/// An endpoint that was changed shortly before the consumer applied an event, or later, is not compared: the consumer may have
/// read it as it was before.
#[tokio::test(start_paused = true)]
async fn missing_delivery_of_an_applied_event_is_found_unless_its_endpoint_changed_since() {
    let world = World::new();
    let unchanged = world.create(to("https://a.example", &["book.lent"])).await;
    let changed = world.create(to("https://b.example", &["*"])).await;
    world.create(to("https://c.example", &["book.lost"])).await;
    world.tx.sleep(Duration::from_secs(61)).await;
    world.webhooks.update(&operator(TENANT), changed.id, to("https://d.example", &["*"])).await.unwrap();
    world.event("event-1", 5).await;
    let now = world.tx.now();
    append(&world.tx, vec![new_event(TENANT, "event-2", 6, now, PAYLOAD)]).await;
    let mut view = world.tx.view().await.unwrap();
    let ids = ["event-1", "event-2"].map(|id| id.parse().unwrap());
    let rows = view.outbox_view().outbox_by_event(&ids).await.unwrap();
    let applied: Vec<_> = rows.iter().map(|row| (row, now)).collect();
    let offer = &world.webhooks.offer;
    let long_ago = now - chrono::TimeDelta::days(1);
    let missing = offer.missing_deliveries(view.outbox_view(), &applied, long_ago).await.unwrap();
    let missing: Vec<_> = missing.into_iter().map(|(row, id)| (rows[row].event_id.as_str(), id)).collect();
    assert_eq!(missing, [("event-2", unchanged.id)]);
    let too_early: Vec<_> = rows.iter().map(|row| (row, now - chrono::TimeDelta::seconds(2))).collect();
    let missing = offer.missing_deliveries(view.outbox_view(), &too_early, long_ago).await.unwrap();
    assert_eq!(missing, []);
}
