//! Metrics of this process for Prometheus: collected once the service installs the recorder, exported at `/metrics`.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use handover_http::routes::metrics::Render;
use handover_outbox::ports::StoreError;
use handover_outbox::{
    ConsumerQueue, METRICS, Metric, MetricKind, Outbox, WEBHOOK_DISABLED_ENDPOINTS, WEBHOOK_METRICS,
    WEBHOOK_OLDEST_DUE, WEBHOOK_PENDING, WEBHOOK_UNDELIVERED, runtime,
};
use handover_system::LOG_LINES_DROPPED;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::terminal::dropped_lines;

/// The recorder of this process; it can be installed only once.
static COLLECTOR: OnceLock<PrometheusHandle> = OnceLock::new();

/// Shortest interval between counts of webhook deliveries and between runs of the recorder's upkeep.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// After a count the task sleeps for at least this multiple of the duration of the count, so that a large table is not
/// counted all the time.
const PAUSE_FACTOR: u32 = 20;

/// The metrics of the toolkit.
fn of_toolkit() -> impl Iterator<Item = &'static Metric> {
    static OF_OUTBOX: &[Metric] = &METRICS;
    static OF_WEBHOOKS: &[Metric] = &WEBHOOK_METRICS;
    static OF_HTTP: &[Metric] = &handover_http::METRICS;
    static OF_LOG: Metric = LOG_LINES_DROPPED;
    OF_OUTBOX.iter().chain(OF_WEBHOOKS).chain(OF_HTTP).chain([&OF_LOG])
}

/// Installs the recorder of the toolkit's metrics and of the application's. A second call changes nothing.
pub fn install(of_application: &'static [Metric]) {
    let builder = PrometheusBuilder::new().with_recommended_naming(true);
    match builder.install_recorder() {
        Ok(collector) => drop(COLLECTOR.set(collector)),
        Err(error) => tracing::debug!(%error, "metrics: recorder is installed already"),
    }
    for metric in of_toolkit().chain(of_application) {
        match metric.kind {
            MetricKind::Gauge | MetricKind::GaugeOfConsumer => {
                metrics::describe_gauge!(metric.name, metric.help)
            }
            MetricKind::Counter | MetricKind::CounterOfConsumer => {
                metrics::describe_counter!(metric.name, metric.help);
            }
        }
    }
}

/// Renders the response of `/metrics`, if the recorder is installed.
pub fn render() -> Option<Render> {
    let collector = COLLECTOR.get()?.clone();
    Some(Arc::new(move || {
        metrics::counter!(LOG_LINES_DROPPED.name).absolute(dropped_lines());
        collector.render()
    }))
}

/// Registers every metric with an initial value, and spawns the tasks that count pending events and webhooks.
pub fn start(outbox: &Outbox, of_application: &'static [Metric]) {
    let Some(collector) = COLLECTOR.get() else { return };
    for metric in of_toolkit().chain(of_application) {
        match metric.kind {
            // A counter that is exported only after its first increment would look like a missing metric until then.
            MetricKind::Counter => metrics::counter!(metric.name).increment(0),
            MetricKind::CounterOfConsumer => {
                for ConsumerQueue { consumer, .. } in outbox.consumers() {
                    metrics::counter!(metric.name, "consumer" => consumer.clone()).increment(0);
                }
            }
            MetricKind::Gauge => metrics::gauge!(metric.name).set(0.0),
            // The consumers set their gauges when they start.
            MetricKind::GaugeOfConsumer => {}
        }
    }
    runtime::start_gauges(outbox);
    let outbox = outbox.for_background_tasks();
    let stopping = outbox.stopping().clone();
    let tasks = outbox.tasks().clone();
    let upkeep = async move {
        while !stopping.is_cancelled() {
            let begun = now();
            if let Err(error) = count_webhooks(&outbox).await {
                tracing::debug!(%error, "metrics: cannot count webhooks; keeping the previous values");
            }
            collector.run_upkeep();
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = outbox.sleep(UPKEEP_INTERVAL.max(begun.elapsed() * PAUSE_FACTOR)) => {}
            }
        }
    };
    drop(tasks.spawn(upkeep));
}

#[allow(clippy::disallowed_methods, reason = "measures the duration of a query")]
fn now() -> Instant {
    Instant::now()
}

async fn count_webhooks(outbox: &Outbox) -> Result<(), StoreError> {
    let now = outbox.now();
    let webhooks = outbox.view().await?.outbox_view().webhook_counts(now).await?;
    metrics::gauge!(WEBHOOK_PENDING).set(gauge(webhooks.pending));
    metrics::gauge!(WEBHOOK_UNDELIVERED).set(gauge(webhooks.dead));
    metrics::gauge!(WEBHOOK_DISABLED_ENDPOINTS).set(gauge(webhooks.disabled_endpoints));
    let age = webhooks.oldest_due.map_or(0, |due| (now - due).num_seconds().max(0));
    metrics::gauge!(WEBHOOK_OLDEST_DUE).set(gauge(age.unsigned_abs()));
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
fn gauge(count: u64) -> f64 {
    count as f64
}
