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
