//! Metrics of this process for Prometheus: collected once `serve` installs the recorder, exported at `/metrics`.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use handover_http::routes::metrics::Render;
use handover_outbox::ports::StoreError;
use handover_outbox::{Metric, MetricKind, PENDING};
use marketplace::App;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::terminal::dropped_lines;

const LOG_LINES_DROPPED: &str = "handover.log.lines.dropped";

/// The metrics of the process itself.
pub const METRICS: [Metric; 1] = [Metric::counter(
    LOG_LINES_DROPPED,
    "Log lines dropped because the reader of stderr was too slow or has ended",
)];

/// The recorder of this process; it can be installed only once.
static COLLECTOR: OnceLock<PrometheusHandle> = OnceLock::new();

/// Shortest interval between counts of pending events and between runs of the recorder's upkeep.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// After a count the task sleeps for at least this multiple of the duration of the count, so that a large outbox is not
/// counted all the time.
const PAUSE_FACTOR: u32 = 20;

/// Every metric of the program.
fn all() -> impl Iterator<Item = &'static Metric> {
    static OF_PROCESS: [Metric; 1] = METRICS;
    static OF_MARKETPLACE: &[Metric] = &marketplace::METRICS;
    static OF_HTTP: &[Metric] = &handover_http::METRICS;
    static OF_OUTBOX: &[Metric] = &handover_outbox::METRICS;
    OF_OUTBOX.iter().chain(OF_HTTP).chain(OF_MARKETPLACE).chain(&OF_PROCESS)
}

/// Installs the recorder. A second call changes nothing.
pub fn install() {
    let builder = PrometheusBuilder::new().with_recommended_naming(true);
    match builder.install_recorder() {
        Ok(collector) => drop(COLLECTOR.set(collector)),
        Err(error) => tracing::debug!(%error, "metrics: recorder is installed already"),
    }
    for metric in all() {
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
pub(crate) fn render() -> Option<Render> {
    let collector = COLLECTOR.get()?.clone();
    Some(Arc::new(move || {
        metrics::counter!(LOG_LINES_DROPPED).absolute(dropped_lines());
        collector.render()
    }))
}

/// Registers every metric of this application with an initial value, and spawns the task that counts pending events.
pub fn start(app: &App) {
    let Some(collector) = COLLECTOR.get() else { return };
    for metric in all() {
        match metric.kind {
            // A counter that is exported only after its first increment would look like a missing metric until then.
            MetricKind::Counter => metrics::counter!(metric.name).increment(0),
            MetricKind::CounterOfConsumer => {
                for subscriber in app.subscribers() {
                    metrics::counter!(metric.name, "consumer" => subscriber.handler.name()).increment(0);
                }
            }
            MetricKind::Gauge => metrics::gauge!(metric.name).set(0.0),
            // The consumers set their gauges when they start.
            MetricKind::GaugeOfConsumer => {}
        }
    }
    let app = app.for_background_tasks();
    let stopping = app.tx.tasks.stopping().clone();
    let tasks = app.tx.tasks.clone();
    let upkeep = async move {
        while !stopping.is_cancelled() {
            let begun = now();
            if let Err(error) = count_pending(&app).await {
                tracing::debug!(%error, "metrics: cannot count pending events; keeping the previous value");
            }
            collector.run_upkeep();
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = app.tx.clock.sleep(UPKEEP_INTERVAL.max(begun.elapsed() * PAUSE_FACTOR)) => {}
            }
        }
    };
    drop(tasks.spawn(upkeep));
}

#[allow(clippy::disallowed_methods, reason = "measures the duration of a query")]
fn now() -> Instant {
    Instant::now()
}

async fn count_pending(app: &App) -> Result<(), StoreError> {
    let counts = app.view().await?.outbox_view().outbox_counts(None).await?;
    #[allow(clippy::cast_precision_loss, reason = "exact up to 2^53 events")]
    metrics::gauge!(PENDING).set(counts.new.saturating_add(counts.retry) as f64);
    Ok(())
}
