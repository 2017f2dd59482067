//! Deliveries that are sent again, and those that are created later.

use super::*;

fn recover(since: DateTime<Utc>, include_missing: bool) -> Recover {
    Recover { since, until: None, include_missing, after: None, dry_run: false }
}

fn ordered() -> EndpointChange {
    EndpointChange { is_ordered: Some(true), ..to("https://a.example", &["*"]) }
}

/// The states of the deliveries of an endpoint, the newest first.
async fn states(world: &World, endpoint: EndpointId) -> Vec<DeliveryState> {
    world.deliveries(endpoint).await.into_iter().map(|delivery| delivery.state).collect()
}

/// Appends published events that the consumer has not applied.
async fn append_published(world: &World, ids: &[String], payload: &str) {
    let now = world.tx.now();
    let events = (0..).zip(ids).map(|(book, id)| new_event(TENANT, id, book, now, payload));
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
    world.event_of(TENANT, "event-1", 5, &large_payload()).await;
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
    append_published(&world, &ids, PAYLOAD).await;
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.tx.sleep(Duration::from_secs(1)).await;
    let recover =
        |after| world.webhooks.recover(&ROTATOR, endpoint.id, Recover { after, ..recover(since, true) });
    let first = recover(None).await.unwrap();
    let created = u64::from(MAX_RECOVERED);
    assert_eq!(first, Recovered { created, more: true, next: first.next, ..Recovered::default() });
    assert_eq!(world.deliveries(endpoint.id).await[0].event_id.as_str(), ids[ids.len() - 2]);
    assert_eq!(recover(first.next).await.unwrap(), Recovered { created: 1, ..Recovered::default() });
    assert_eq!(world.deliveries(endpoint.id).await[0].event_id.as_str(), ids[ids.len() - 1]);
    assert_eq!(recover(None).await.unwrap(), Recovered::default());
}

#[tokio::test(start_paused = true)]
async fn search_for_missing_events_reads_limited_number_of_rows_per_call() {
    let world = World::new();
    let since = world.tx.now();
    let other = 2.try_into().unwrap();
    let others = (1..=100_000).map(|n| new_event(other, &format!("other-{n}"), n, since, PAYLOAD));
    append(&world.tx, others.collect()).await;
    append_published(&world, &["event-1".to_owned()], PAYLOAD).await;
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.tx.sleep(Duration::from_secs(1)).await;
    let recover =
        |after| world.webhooks.recover(&ROTATOR, endpoint.id, Recover { after, ..recover(since, true) });
    let first = recover(None).await.unwrap();
    assert_eq!(first, Recovered { more: true, next: first.next, ..Recovered::default() });
    let second = recover(first.next).await.unwrap();
    assert_eq!(second, Recovered { created: 1, ..Recovered::default() });
}

#[tokio::test(start_paused = true)]
async fn missing_event_with_a_body_that_is_too_large_is_announced_once_and_not_counted() {
    let world = World::new();
    let since = world.tx.now();
    append_published(&world, &["event-1".to_owned()], PAYLOAD).await;
    append_published(&world, &["event-2".to_owned()], &large_payload()).await;
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://a.example", &["book.lent"]) };
    let endpoint = world.create(full).await;
    world.tx.sleep(Duration::from_secs(1)).await;
    for dry_run in [true, false] {
        let command = Recover { dry_run, ..recover(since, true) };
        let done = world.webhooks.recover(&operator(TENANT), endpoint.id, command).await.unwrap();
        assert_eq!(done, Recovered { dry_run, created: 1, ..Recovered::default() });
    }
    // The consumer of webhooks applies the events after all.
    world.apply("event-1").await;
    world.apply("event-2").await;
    assert_eq!(states(&world, endpoint.id).await, [DeliveryState::Dead, DeliveryState::Pending]);
    assert_eq!(world.outbox_types().await, ["WEBHOOK_DELIVERY_DEAD"]);
}

/// The bodies were made for the endpoint as it was.
#[tokio::test(start_paused = true)]
async fn recovery_is_refused_when_its_endpoint_is_changed_meanwhile() {
    let world = World::new();
    let since = world.tx.now();
    let ids: Vec<String> = (0..10_000).map(|number| format!("event-{number}")).collect();
    append_published(&world, &ids, PAYLOAD).await;
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.tx.sleep(Duration::from_secs(1)).await;
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..EndpointChange::default() };
    let change = async {
        while world.deliveries(endpoint.id).await.is_empty() {}
        world.webhooks.update(&ROTATOR, endpoint.id, full).await.unwrap();
    };
    let recovered = world.webhooks.recover(&ROTATOR, endpoint.id, recover(since, true));
    let (recovered, ()) = tokio::join!(recovered, change);
    let error = recovered.unwrap_err();
    assert!(matches!(error, WebhookError::Invalid(InvalidEndpoint { field: "endpoint", .. })), "{error}");
    let done = world.webhooks.recover(&ROTATOR, endpoint.id, recover(since, true)).await.unwrap();
    assert!((1..10_000).contains(&done.created), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn redelivery_is_a_delivery_of_its_own_and_marked() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.dispatch().await;
    let first = world.only_delivery(endpoint.id).await;
    let again = world.webhooks.redeliver(&operator(TENANT), endpoint.id, first.id).await.unwrap();
    assert_eq!((again.redelivery, &again.body), (1, &first.body));
    assert_eq!(world.dispatch().await, 1);
    let seen = world.seen();
    assert_eq!(seen.iter().map(|it| it.is_redelivery).collect::<Vec<_>>(), [false, true]);
    assert!(seen.iter().all(|it| it.message_id == "event-1"));
    assert_eq!(world.deliveries(endpoint.id).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn test_sends_the_example_of_a_type() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["book.lost"])).await;
    let delivery = world.webhooks.test(&operator(TENANT), endpoint.id, "book.lent").await.unwrap();
    assert!(delivery.event_id.as_str().starts_with("test-"));
    assert_eq!(world.dispatch().await, 1);
    assert!(world.seen()[0].body.contains(r#""copies":1"#));
    let unknown = world.webhooks.test(&operator(TENANT), endpoint.id, "book.lend").await.unwrap_err();
    assert!(unknown.to_string().contains("book.lent"), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn ordered_endpoint_gets_test_while_failed_test_waits() {
    let world = World::new();
    let endpoint = world.create(ordered()).await;
    world.replies([Reply::Status(500)]);
    for _ in 0..2 {
        world.webhooks.test(&operator(TENANT), endpoint.id, "book.lent").await.unwrap();
        assert_eq!(world.dispatch().await, 1);
    }
    assert_eq!(states(&world, endpoint.id).await, [DeliveryState::Delivered, DeliveryState::Pending]);
}

#[tokio::test(start_paused = true)]
async fn ordered_endpoint_gets_redelivery_while_failed_redelivery_waits() {
    let world = World::new();
    let endpoint = world.create(ordered()).await;
    world.event("event-1", 5).await;
    world.dispatch().await;
    let first = world.only_delivery(endpoint.id).await;
    world.replies([Reply::Status(500)]);
    for _ in 0..2 {
        world.webhooks.redeliver(&operator(TENANT), endpoint.id, first.id).await.unwrap();
        assert_eq!(world.dispatch().await, 1);
    }
    let expected = [DeliveryState::Delivered, DeliveryState::Pending, DeliveryState::Delivered];
    assert_eq!(states(&world, endpoint.id).await, expected);
}

#[tokio::test(start_paused = true)]
async fn example_that_is_too_large_is_refused() {
    let world = World::new();
    let offered = OfferedType { example: Json::parse(&large_payload()).unwrap(), ..lent() };
    let webhooks = Webhooks { offer: Arc::new(Offer::default().with(offered)), ..world.webhooks.clone() };
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://a.example", &["book.lent"]) };
    let endpoint = world.create(full).await;
    let error = webhooks.test(&operator(TENANT), endpoint.id, "book.lent").await.unwrap_err();
    assert!(error.to_string().contains("at most 65536"), "{error}");
    assert_eq!(world.deliveries(endpoint.id).await, []);
}

#[tokio::test(start_paused = true)]
async fn recovery_sends_dead_deliveries_and_missing_events() {
    let world = World::new();
    let since = world.tx.now();
    // An event before the endpoint exists.
    world.event("event-0", 1).await;
    mark_sent(&world, "event-0").await;
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.event("event-1", 1).await;
    mark_sent(&world, "event-1").await;
    world.replies(std::iter::repeat_n(Reply::Status(500), 10));
    world.dispatch().await;
    for _ in 0..9 {
        world.next_attempt(endpoint.id).await;
    }
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Dead);
    world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap();
    let recover = |include_missing, dry_run| {
        let command = Recover { dry_run, ..self::recover(since, include_missing) };
        world.webhooks.recover(&ROTATOR, endpoint.id, command)
    };
    let planned = recover(true, true).await.unwrap();
    assert_eq!(planned, Recovered { dry_run: true, resent: 1, created: 1, ..Recovered::default() });
    assert_eq!(world.dispatch().await, 0, "a dry run changes nothing");
    let done = recover(true, false).await.unwrap();
    assert_eq!(done, Recovered { dry_run: false, resent: 1, created: 1, ..Recovered::default() });
    world.seen();
    assert_eq!(world.dispatch().await, 2);
    let mut sent: Vec<String> = world.seen().into_iter().map(|it| it.message_id).collect();
    sent.sort_unstable();
    assert_eq!(sent, ["event-0", "event-1"]);
    assert_eq!(recover(true, false).await.unwrap(), Recovered::default());
    let reversed = Recover { until: Some(since), ..self::recover(world.tx.now(), false) };
    let error = world.webhooks.recover(&operator(TENANT), endpoint.id, reversed).await.unwrap_err();
    assert!(matches!(error, WebhookError::Invalid(InvalidEndpoint { field: "since", .. })), "{error}");
}
