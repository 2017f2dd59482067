//! The gauges that a process with the role of the relay sets, and the state of the deployment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover::Role;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult};

/// Gauges of this thread.
#[derive(Default)]
struct Gauges(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Gauges {
    fn value(&self, name: &str) -> Option<f64> {
        let gauges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.get(name).map(|bits| f64::from_bits(bits.load(Ordering::Relaxed)))
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key.name().to_owned())
                .or_default()
                .clone(),
        )
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the outbox runs in real time")]
async fn process_with_the_relay_sets_the_gauges_of_unpublished_events() -> TestResult {
    let gauges = Gauges::default();
    let _recording = metrics::set_default_local_recorder(&gauges);
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue_at(&mut tx, BookLent::to("ann"), "2999-01-01T00:00:00Z".parse()?).await?;
    tx.commit().await?;
    for (roles, pending) in [(vec![Role::Consumers], None), (vec![Role::Relay], Some(1.0))] {
        let running = library.builder().event::<BookLent>().roles(roles).build()?.start().await?;
        let measuring = async {
            while gauges.value("outbox.event.pending") != pending {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), measuring).await?;
        running.stop(STOP_LIMIT).await?;
        assert_eq!(gauges.value("outbox.event.pending"), pending);
    }
    assert_eq!(gauges.value("handover.outbox.oldest.due.seconds"), Some(0.0));
    Ok(())
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the outbox runs in real time")]
async fn leader_exports_the_state_of_the_deployment() -> TestResult {
    let library = Library::open().await?;
    let outbox = library.builder().event::<BookLent>().build()?;
    outbox.migrate().await?;
    let mut tx = library.pool.begin().await?;
    outbox.enqueue_at(&mut tx, BookLent::to("ann"), "2999-01-01T00:00:00Z".parse()?).await?;
    tx.commit().await?;
    let running = outbox.start().await?;
    let state = running.state_metrics(Duration::from_millis(20));
    let reading = async {
        while state.exposition().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), reading).await?;
    let text = state.exposition();
    for line in [
        "# TYPE handover_outbox_rows gauge",
        "handover_outbox_rows{status=\"FAILED\"} 0",
        "handover_broker_reachable 1",
        "handover_state_timestamp_seconds ",
    ] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line}: {text}");
    }
    running.stop(STOP_LIMIT).await?;
    Ok(())
}
