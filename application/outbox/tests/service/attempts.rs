//! Metrics of attempts, settled deliveries and owned partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::ConsumeStatus;
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::NewEvent;

use crate::library::{Library, QUEUE, eventually};
use crate::measured::Measured;
use crate::{Unavailable, lent, noted};

#[tokio::test(start_paused = true)]
async fn attempts_until_success_and_settled_deliveries_are_measured() {
    let measured = Measured::default();
    let _recording = metrics::set_default_local_recorder(&measured);
    let handler = Arc::new(Unavailable(AtomicBool::new(false)));
    let subscriber = Subscriber::new(QUEUE, Arc::clone(&handler) as Arc<_>);
    let library = Library::sending([lent(), noted()]).with(&subscriber).started().await;
    eventually(async || measured.gauge("handover.relay.partitions") == 64.0).await;
    library.commit(vec![library.event("lent", "BOOK_LENT", 1, 1, r#"{"reader":3}"#)]).await;
    let settled = |result: &str| measured.counter(&format!("handover.consumer.deliveries loans {result}"));
    eventually(async || settled("requeued") == 1).await;
    assert_eq!(measured.histogram("handover.publish.attempts"), [1.0]);
    assert!(measured.histogram("handover.consumer.attempts loans").is_empty());
    handler.0.store(true, Ordering::Relaxed);
    eventually(async || settled("acked") == 1).await;
    let (status, attempts) = library.consumed("loans", "lent").await.unwrap();
    assert_eq!(status, ConsumeStatus::Success);
    assert!(attempts > 1, "{attempts}");
    assert_eq!(measured.histogram("handover.consumer.attempts loans"), [f64::from(attempts)]);
    let invalid = library.event("invalid", "BOOK_LENT", 2, 1, r#"{"reader":"ann"}"#);
    library.commit(vec![invalid]).await;
    eventually(async || settled("rejected") == 1).await;
    assert_eq!(settled("acked"), 1);
    library.tx.tasks().stop().await;
    assert_eq!(measured.gauge("handover.relay.partitions"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn publish_attempts_include_the_failed_ones() {
    let measured = Measured::default();
    let _recording = metrics::set_default_local_recorder(&measured);
    let library = Library::sending([lent()]).with(&crate::loans()).started().await;
    library.broker.nack_next(2);
    let event = library.event("lent", "BOOK_LENT", 1, 1, r#"{"reader":3}"#);
    library.commit(vec![NewEvent { max_retry_count: 5, ..event }]).await;
    eventually(async || !measured.histogram("handover.publish.attempts").is_empty()).await;
    assert_eq!(measured.histogram("handover.publish.attempts"), [3.0]);
    library.tx.tasks().stop().await;
}
