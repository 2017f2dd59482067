//! Which events are delivered to which endpoints, with which body and in which order.

use super::*;

#[tokio::test(start_paused = true)]
async fn event_is_delivered_once_to_each_endpoint_that_asked_for_it() {
    let world = World::new();
    let all = world.create(to("https://a.example/hook", &["*"])).await;
    let books = world.create(to("https://b.example/hook", &["book.*"])).await;
    let lost = world.create(to("https://c.example/hook", &["book.lost"])).await;
    world.webhooks.create(&operator(other_tenant()), None, to("https://d.example", &["*"])).await.unwrap();
    world.event("event-1", 5).await;
    world.apply("event-1").await;
    assert_eq!(world.dispatch().await, 2);
    assert_eq!(world.dispatch().await, 0, "a delivered event must not be sent again");
    let seen = world.seen();
    let mut receivers: Vec<EndpointId> = seen.iter().map(|seen| seen.endpoint).collect();
    receivers.sort_unstable();
    let mut expected = [all.id, books.id];
    expected.sort_unstable();
    assert_eq!(receivers, expected);
    assert!(seen.iter().all(|seen| seen.message_id == "event-1" && !seen.is_redelivery));
    assert_eq!(world.deliveries(lost.id).await, []);
    let delivery = world.only_delivery(all.id).await;
    assert_eq!(
        (delivery.state, delivery.attempts, delivery.last_status),
        (DeliveryState::Delivered, 0, Some(200))
    );
    assert_eq!(world.endpoint(all.id).await.health.last_success, delivery.settle_time);
}

#[tokio::test(start_paused = true)]
async fn body_is_thin_full_or_unmasked() {
    let world = World::new();
    let thin = world.create(to("https://a.example", &["book.lent"])).await;
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://b.example", &["book.lent"]) };
    let full = world.create(full).await;
    let unmasked =
        EndpointChange { body_form: Some(BodyForm::Unmasked), ..to("https://c.example", &["book.lent"]) };
    let refused = world.webhooks.create(&operator(TENANT), None, unmasked.clone()).await.unwrap_err();
    assert!(matches!(refused, WebhookError::Invalid(InvalidEndpoint { field: "unmasked", .. })), "{refused}");
    let trusted = Operator { sees_personal_data: true, ..operator(TENANT) };
    let unmasked = world.webhooks.create(&trusted, None, unmasked).await.unwrap().endpoint;
    world.event("event-1", 5).await;
    world.dispatch().await;
    let seen = world.seen();
    let body = |id| seen.iter().find(|seen| seen.endpoint == id).unwrap().body.clone();
    let begin = r#"{"type":"book.lent","timestamp":"2026-02-04T10:30:00.000000Z","data":{"tenantId":1,"eventId":"event-1","aggregateType":"Book","aggregateId":5,"copies":3"#;
    assert_eq!(body(thin.id), format!("{begin}}}}}"));
    assert_eq!(body(full.id), format!(r#"{begin},"reader":"***"}}}}"#));
    assert_eq!(body(unmasked.id), format!(r#"{begin},"reader":"Ada Lovelace"}}}}"#));
    // Whoever may not see personal data cannot redirect it.
    let elsewhere = to("https://evil.example", &["*"]);
    let refused = world.webhooks.update(&operator(TENANT), unmasked.id, elsewhere).await.unwrap_err();
    assert!(matches!(refused, WebhookError::Invalid(_)), "{refused}");
    assert_eq!(world.only_delivery(unmasked.id).await.body, "***");
}

#[tokio::test(start_paused = true)]
async fn response_is_stored_escaped_for_operators_who_may_see_it() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::NoConnection]);
    world.dispatch().await;
    world.next_attempt(endpoint.id).await;
    let delivery = world.only_delivery(endpoint.id).await;
    let trusted = Operator { sees_personal_data: true, ..operator(TENANT) };
    let shown = world.webhooks.delivery(&trusted, endpoint.id, delivery.id).await.unwrap();
    let [failed, delivered] = shown.attempts.as_slice() else { panic!("{:?}", shown.attempts) };
    assert_eq!((failed.outcome, failed.status), (AttemptOutcome::Failed, None));
    assert_eq!(failed.error.as_deref(), Some("DNS: no such host"));
    assert_eq!(delivered.response.as_deref(), Some("thanks\\u{7}"));
}

#[tokio::test(start_paused = true)]
async fn ordered_endpoint_gets_the_events_of_an_aggregate_in_order() {
    let world = World::new();
    let ordered = EndpointChange {
        is_ordered: Some(true),
        max_in_flight: Some(10),
        ..to("https://a.example", &["book.lent"])
    };
    let endpoint = world.create(ordered).await;
    for (id, book) in [("a-1", 1), ("a-2", 1), ("b-1", 2), ("a-3", 1)] {
        world.event(id, book).await;
    }
    world.replies([Reply::Status(500)]);
    assert_eq!(world.dispatch().await, 2, "only the first event of each aggregate");
    let mut sent: Vec<String> = world.seen().into_iter().map(|seen| seen.message_id).collect();
    sent.sort_unstable();
    assert_eq!(sent, ["a-1", "b-1"]);
    // Whichever of the two failed is sent first again; then the rest of `a` follows in order.
    let mut rest = Vec::new();
    for _ in 0..60 {
        world.tx.sleep(Duration::from_secs(1)).await;
        world.dispatch().await;
        rest.extend(world.seen().into_iter().map(|seen| seen.message_id).filter(|id| id.starts_with('a')));
    }
    let expected: &[&str] = if rest.len() == 3 { &["a-1", "a-2", "a-3"] } else { &["a-2", "a-3"] };
    assert_eq!(rest, expected);
    assert!(world.deliveries(endpoint.id).await.iter().all(|it| it.state == DeliveryState::Delivered));
}

#[tokio::test(start_paused = true)]
async fn body_that_is_too_large_is_not_sent() {
    let world = World::new();
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://a.example", &["*"]) };
    let endpoint = world.create(full).await;
    world.event_of(TENANT, "event-1", 5, &large_payload()).await;
    assert_eq!(world.dispatch().await, 0);
    let delivery = world.only_delivery(endpoint.id).await;
    assert_eq!(delivery.state, DeliveryState::Dead);
    assert!(delivery.last_error.unwrap().contains("at most 65536"));
    // The other endpoints of the tenant learn about it, as about every dead delivery.
    assert_eq!(world.outbox_types().await, ["WEBHOOK_DELIVERY_DEAD"]);
    let observer = world.create(to("https://b.example", &["webhook.delivery.dead"])).await;
    let announced = world.latest_event().await;
    assert!(announced.payload.contains(&format!(r#""deliveryId":{}"#, delivery.id)), "{}", announced.payload);
    assert!(announced.payload.contains("at most 65536"), "{}", announced.payload);
    world.apply(announced.event_id.as_str()).await;
    assert_eq!(world.dispatch().await, 1);
    assert_eq!(world.only_delivery(observer.id).await.event_type, "webhook.delivery.dead");
}
