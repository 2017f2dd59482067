//! Content of published messages.

use std::time::Duration;

use handover_events::Envelope;
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;

use super::test_brokers::{Publication, confirming_broker};
use crate::support::{World, millis, pass, sample, secs};

async fn published(timeout: Duration, events: impl Fn(&World) -> Vec<NewEvent>) -> Vec<Publication> {
    let world = World::with_timeout(timeout).await;
    let (broker, windows) = confirming_broker();
    let process = world.process_on(broker);
    process.start_relay("relay-1", RelaySettings::default());
    process.commit(events(&world)).await;
    pass(millis(100)).await;
    windows.all()
}

#[tokio::test(start_paused = true)]
async fn message_contains_the_envelope_and_properties_of_the_contract() {
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let metadata = EventMetadata {
        trace_id: Some("trace-xxx".into()),
        traceparent: Some(traceparent.into()),
        request_id: Some("request-1".into()),
        ..EventMetadata::default()
    };
    let sent = published(secs(900), |world| {
        vec![NewEvent { metadata: metadata.clone(), ..world.event("e-1", 1, &sample::created(7)) }]
    })
    .await;
    let Publication { key, message, .. } = &sent[0];
    assert_eq!(key, "order.created");
    assert_eq!(message.message_id.as_deref(), Some("e-1"));
    assert_eq!(message.kind.as_deref(), Some("ORDER_CREATED"));
    assert_eq!(message.correlation_id.as_deref(), Some("trace-xxx"));
    let headers: Vec<(&str, &str)> =
        message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        headers,
        [
            ("aggregateId", "7"),
            ("aggregateSeq", "1"),
            ("aggregateType", "Order"),
            ("requestId", "request-1"),
            ("tenantId", "1"),
            ("traceparent", traceparent)
        ]
    );
    let start = "{\"eventId\":\"e-1\",\"eventType\":\"ORDER_CREATED\",\"aggregateType\":\"Order\",\
                 \"aggregateId\":7,\"occurredAt\":\"2026-02-04T10:30:00.000000Z\",\"traceId\":\"trace-xxx\",\
                 \"payload\":{\"orderId\":7,";
    assert!(message.body.starts_with(start), "{}", message.body);
    assert!(
        message.body.contains("\"totalAmount\":88.50"),
        "expected an amount with two decimals: {}",
        message.body
    );
}

#[tokio::test(start_paused = true)]
async fn row_without_metadata_uses_its_event_id_as_trace_id() {
    let sent = published(secs(900), |world| {
        let metadata = EventMetadata::default();
        vec![NewEvent { metadata, aggregate_seq: Some(0), ..world.event("manual", 0, &sample::paid(7)) }]
    })
    .await;
    let message = &sent[0].message;
    assert_eq!(message.correlation_id.as_deref(), Some("manual"));
    assert_eq!(Envelope::parse(&message.body).unwrap().trace_id, "manual");
    assert!(!message.headers.contains_key("traceparent"));
    assert!(!message.headers.contains_key("requestId"));
}

#[tokio::test(start_paused = true)]
async fn timeout_routing_key_contains_a_non_default_ttl() {
    for (timeout, key) in [
        (secs(15 * 60), "order.timeout.delay"),
        (secs(30), "order.timeout.delay.30000ms"),
        (millis(50), "order.timeout.delay.50ms"),
    ] {
        let sent =
            published(timeout, |world| vec![world.event("t-1", 1, &sample::timeout(7, world.now()))]).await;
        assert_eq!(sent[0].key, key);
    }
}
