//! Events about webhooks, as other endpoints get them.

use super::*;

/// The field `data` of a body.
fn data(seen: &[Seen], endpoint: EndpointId) -> serde_json::Value {
    let body = &seen.iter().find(|seen| seen.endpoint == endpoint).unwrap().body;
    serde_json::from_str::<serde_json::Value>(body).unwrap()["data"].clone()
}

/// Applies the only event about webhooks and sends it. Returns its id and the requests.
async fn announced(world: &World) -> (String, Vec<Seen>) {
    let about = world.about_webhooks().await;
    assert_eq!(about.len(), 1);
    world.apply(about[0].as_str()).await;
    world.seen();
    world.dispatch().await;
    (about[0].as_str().to_owned(), world.seen())
}

#[tokio::test(start_paused = true)]
async fn dead_delivery_is_announced_with_its_event_and_reason() {
    let world = World::new();
    let failing = world.create(to("https://a.example", &["*"])).await;
    let thin = world.create(to("https://b.example", &["webhook.*"])).await;
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://c.example", &["webhook.*"]) };
    let full = world.create(full).await;
    world.event("event-1", 5).await;
    world.fail().await;
    let dead = world.only_delivery(failing.id).await;
    let (id, seen) = announced(&world).await;
    assert_eq!(seen.len(), 2, "the endpoint gets no event about itself");
    let expected = serde_json::json!({
        "tenantId": 1, "eventId": id, "aggregateType": "Webhook", "aggregateId": failing.id.to_string(),
        "endpointId": failing.id.to_string(), "deliveryId": dead.id, "payloadEventId": "event-1",
        "reason": "HTTP 500",
    });
    assert_eq!(data(&seen, thin.id), expected);
    assert_eq!(data(&seen, full.id), expected);
}

#[tokio::test(start_paused = true)]
async fn disabled_endpoint_is_announced_to_the_other_endpoints_with_the_reason() {
    let world = World::new();
    let gone = world.create(to("https://a.example", &["*"])).await;
    let other = world.create(to("https://b.example", &["webhook.endpoint.disabled"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::Status(410)]);
    world.dispatch().await;
    let (id, seen) = announced(&world).await;
    assert_eq!(seen.iter().map(|seen| seen.endpoint).collect::<Vec<_>>(), [other.id]);
    let expected = serde_json::json!({
        "tenantId": 1, "eventId": id, "aggregateType": "Webhook", "aggregateId": gone.id.to_string(),
        "endpointId": gone.id.to_string(), "reason": "the receiver answered 410 Gone",
    });
    assert_eq!(data(&seen, other.id), expected);
}
