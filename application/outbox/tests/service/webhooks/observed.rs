//! What operators see of attempts: log lines and counters.

use super::{Reply, World, to};
use crate::log;
use crate::measured::Measured;

#[tokio::test(start_paused = true)]
async fn failed_attempts_are_logged_and_counted_and_a_failing_endpoint_is_reported_once() {
    log::capture();
    let measured = Measured::default();
    let _recording = metrics::set_default_local_recorder(&measured);
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([
        Reply::Status(500),
        Reply::NoConnection,
        Reply::RetryAfter(503, "1".to_owned()),
        Reply::Status(404),
        Reply::Status(404),
        Reply::Status(204),
    ]);
    let lines =
        |part: &str| -> Vec<String> { log::lines().into_iter().filter(|line| line.contains(part)).collect() };
    for attempt in 1..=6 {
        let failing = usize::from(attempt > 4);
        assert_eq!(lines("[Webhooks] endpoint is failing").len(), failing, "before attempt {attempt}");
        assert_eq!(measured.counter("handover.webhook.endpoint.failing"), failing as u64);
        world.next_attempt(endpoint.id).await;
    }
    let failed = lines("[Webhooks] attempt failed");
    let expected = [
        "status=500 error=\"HTTP 500\"",
        "error=\"DNS: no such host\"",
        "status=503 error=\"HTTP 503\"",
        "status=404 error=\"HTTP 404\"",
        "status=404 error=\"HTTP 404\"",
    ];
    assert_eq!(failed.len(), expected.len(), "{failed:#?}");
    for (number, (line, expected)) in failed.iter().zip(expected).enumerate() {
        let ids = format!("endpointId={} deliveryId=1 eventId=event-1 attempt={} ", endpoint.id, number + 1);
        assert!(line.contains(&ids) && line.contains(expected), "{line}");
        assert_eq!(line.contains("status="), expected.contains("status="), "{line}");
    }
    assert_eq!(lines("[Webhooks] endpoint is failing").len(), 1);
    let counted = ["delivered", "failed", "interrupted", "dead", "endpoint.disabled"];
    let counted = counted.map(|name| measured.counter(&format!("handover.webhook.{name}")));
    assert_eq!(counted, [1, 5, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn dead_deliveries_and_disabled_endpoints_are_counted() {
    let measured = Measured::default();
    let _recording = metrics::set_default_local_recorder(&measured);
    let world = World::new();
    let failing = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies((0..10).map(|_| Reply::Status(500)));
    for _ in 0..10 {
        world.next_attempt(failing.id).await;
    }
    let counted = |name: &str| measured.counter(&format!("handover.webhook.{name}"));
    assert_eq!((counted("failed"), counted("dead"), counted("endpoint.disabled")), (10, 1, 0));
    let gone = world.create(to("https://b.example", &["*"])).await;
    world.webhooks.disable(&super::operator(super::TENANT), failing.id, None).await.unwrap();
    world.event("event-2", 5).await;
    world.replies([Reply::Status(410)]);
    world.next_attempt(gone.id).await;
    assert_eq!((counted("failed"), counted("dead"), counted("endpoint.disabled")), (11, 1, 1));
}
