//! Deliveries that are sent again, and those that are created later.

use super::*;

fn recover(since: DateTime<Utc>, include_missing: bool) -> Recover {
    Recover { since, until: None, include_missing, dry_run: false }
}

/// Appends published events that the consumer has not applied.
async fn append_published(world: &World, ids: &[String]) {
    let now = world.tx.now();
    let events = (0..).zip(ids).map(|(book, id)| new_event(TENANT, id, book, now, PAYLOAD));
    append(&world.tx, events.collect()).await;
    let confirmed: Vec<Confirmed> = ids.iter().map(|id| crate::versions::confirmed(id)).collect();
    with_tx(&world.tx, confirmed, move |unit, confirmed, _| {
        let confirmed: Vec<&Confirmed> = confirmed.iter().collect();
        Box::pin(async move { unit.outbox().mark_sent(&confirmed, now).await })
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn delivery_without_a_body_is_not_sent_again() {
    let world = World::new();
    let since = world.tx.now();
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://a.example", &["*"]) };
    let endpoint = world.create(full).await;
    let payload = format!(r#"{{"copies":[{}1]}}"#, "1,".repeat(40_000));
    world.event_of(TENANT, "event-1", 5, &payload).await;
    world.tx.sleep(Duration::from_secs(1)).await;
    for dry_run in [true, false] {
        let command = Recover { dry_run, ..recover(since, true) };
        let done = world.webhooks.recover(&operator(TENANT), endpoint.id, command).await.unwrap();
        assert_eq!(done, Recovered { dry_run, ..Recovered::default() });
    }
    assert_eq!(world.dispatch().await, 0);
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Dead);
}

#[tokio::test(start_paused = true)]
async fn delivery_whose_event_was_redelivered_is_not_sent_again() {
    let world = World::new();
    let since = world.tx.now();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.fail().await;
    let dead = world.only_delivery(endpoint.id).await;
    world.webhooks.redeliver(&operator(TENANT), endpoint.id, dead.id).await.unwrap();
    assert_eq!(world.dispatch().await, 1);
    world.tx.sleep(Duration::from_secs(1)).await;
    let done = world.webhooks.recover(&operator(TENANT), endpoint.id, recover(since, false)).await.unwrap();
    assert_eq!(done, Recovered::default());
}

#[tokio::test(start_paused = true)]
async fn missing_events_about_an_endpoint_are_not_delivered_to_it() {
    let world = World::new();
    let since = world.tx.now();
    let gone = world.create(to("https://a.example", &["*"])).await;
    let other = world.create(to("https://b.example", &["webhook.*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::Status(410)]);
    world.dispatch().await;
    for id in world.about_webhooks().await {
        mark_sent(&world, id.as_str()).await;
    }
    world.tx.sleep(Duration::from_secs(1)).await;
    for (endpoint, created) in [(gone.id, 0), (other.id, 1)] {
        let done = world.webhooks.recover(&operator(TENANT), endpoint, recover(since, true)).await.unwrap();
        assert_eq!(done.created, created);
    }
}

#[tokio::test(start_paused = true)]
async fn oldest_missing_events_are_delivered_first() {
    let world = World::new();
    let since = world.tx.now();
    let ids: Vec<String> = (0..=MAX_RECOVERED).map(|number| format!("event-{number:05}")).collect();
    append_published(&world, &ids).await;
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.tx.sleep(Duration::from_secs(1)).await;
    let recover = || world.webhooks.recover(&ROTATOR, endpoint.id, recover(since, true));
    let created = u64::from(MAX_RECOVERED);
    assert_eq!(recover().await.unwrap(), Recovered { created, more: true, ..Recovered::default() });
    assert_eq!(world.deliveries(endpoint.id).await[0].event_id.as_str(), ids[ids.len() - 2]);
    assert_eq!(recover().await.unwrap(), Recovered { created: 1, ..Recovered::default() });
    assert_eq!(world.deliveries(endpoint.id).await[0].event_id.as_str(), ids[ids.len() - 1]);
}
