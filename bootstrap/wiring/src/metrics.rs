//! What this process counts, for Prometheus: collected from the moment that `serve` asks for it, told at `/metrics`.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use handover_outbox::ports::StoreError;
use handover_outbox::{MetricKind, PENDING};
use marketplace::{App, METRICS};
use marketplace_http::Render;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// The collector of this process: there can be one.
static COLLECTOR: OnceLock<PrometheusHandle> = OnceLock::new();

/// How often what is pending is counted, at most; also how often the collector tidies up.
const EVERY: Duration = Duration::from_secs(5);
/// Counting pauses for that many times as long as it took: a great outbox is not counted all the time.
const PAUSES: u32 = 20;

/// Begins to collect. A second call changes nothing.
pub fn install() {
    let builder = PrometheusBuilder::new().with_recommended_naming(true);
    match builder.install_recorder() {
        Ok(collector) => drop(COLLECTOR.set(collector)),
        Err(error) => tracing::debug!(%error, "metrics are collected already"),
    }
    for metric in handover_outbox::METRICS.iter().chain(&METRICS) {
        match metric.kind {
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Counter | MetricKind::CounterOfConsumer => {
                metrics::describe_counter!(metric.name, metric.help);
            }
        }
    }
}

/// What `/metrics` tells, if anything is collected.
pub(crate) fn render() -> Option<Render> {
    let collector = COLLECTOR.get()?.clone();
    Some(Arc::new(move || collector.render()))
}

/// Keeps the metrics of this application: each is there from the start, and what is pending is counted now and then.
pub fn keep(app: &App) {
    let Some(collector) = COLLECTOR.get() else { return };
    for metric in handover_outbox::METRICS.iter().chain(&METRICS) {
        match metric.kind {
            // One that is not there yet would look like one that is not kept.
            MetricKind::Counter => metrics::counter!(metric.name).increment(0),
            MetricKind::CounterOfConsumer => {
                for subscriber in app.subscribers() {
                    metrics::counter!(metric.name, "consumer" => subscriber.handler.name()).increment(0);
                }
            }
            MetricKind::Gauge => metrics::gauge!(metric.name).set(0.0),
        }
    }
    let (app, stopping) = (app.of_its_own(), app.tx.tasks.stopping().clone());
    let tasks = app.tx.tasks.clone();
    let keeping = async move {
        while !stopping.is_cancelled() {
            let begun = began();
            if let Err(error) = count_pending(&app).await {
                tracing::debug!(%error, "what is pending was not counted");
            }
            collector.run_upkeep();
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = app.tx.clock.sleep(EVERY.max(begun.elapsed() * PAUSES)) => {}
            }
        }
    };
    drop(tasks.spawn(keeping));
}

#[allow(clippy::disallowed_methods, reason = "how long a query took is of this machine's time")]
fn began() -> Instant {
    Instant::now()
}

async fn count_pending(app: &App) -> Result<(), StoreError> {
    let counts = app.view().await?.outbox_view().outbox_counts(None).await?;
    #[allow(clippy::cast_precision_loss, reason = "nobody minds one event in 2^53")]
    metrics::gauge!(PENDING).set(counts.new.saturating_add(counts.retry) as f64);
    Ok(())
}
