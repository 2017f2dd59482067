//! A process whose key is not that of an endpoint.

use super::*;

#[tokio::test(start_paused = true)]
async fn request_that_cannot_be_signed_counts_no_attempt() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let dispatcher = world.dispatcher();
    for _ in 0..20 {
        world.replies([Reply::NotSigned]);
        assert_eq!(dispatch_once(&world.tx, &dispatcher, NonZeroU32::MIN).await.unwrap(), 1);
        let delivery = world.only_delivery(endpoint.id).await;
        assert_eq!((delivery.state, delivery.attempts, delivery.claims), (DeliveryState::Pending, 0, 0));
        assert!(delivery.last_error.as_deref().unwrap().contains("webhook.key"), "{delivery:?}");
        assert_eq!(world.attempts(&delivery).await, []);
        assert_eq!(world.dispatch().await, 0, "the delivery is not due at once");
        world.tx.sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(world.endpoint(endpoint.id).await.health, EndpointHealth::default());
    assert_eq!(world.dispatch().await, 1);
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn rotation_of_the_key_continues_after_an_endpoint_of_another_key() {
    let world = World::new();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.create(to("https://a.example", &["*"])).await.id);
    }
    ids.sort_unstable();
    *world.receiver.other_key.lock().unwrap() = Some(ids[0]);
    let rotated = world.webhooks.rotate_key(&operator(TENANT)).await.unwrap();
    assert_eq!(rotated, RotatedKeys { changed: 2, failed: vec![(ids[0], SecretError::OtherKey(ids[0]))] });
    assert_eq!(world.endpoint(ids[2]).await.secrets[0].sealed.0, format!("key-2 {}", ids[2]));
}
