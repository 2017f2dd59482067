//! Metrics for Prometheus, exported at `/metrics`: counters, gauges and histograms of this process, collected once the program
//! installs the recorder, and the state of the deployment while this process leads.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use handover_http::routes::metrics::Render;
use handover_outbox::state::{self, DatabaseState, StateMetrics, StateSource};
use handover_outbox::{BUCKETS, ConsumerQueue, METRICS, Metric, MetricKind, Outbox};
use handover_sql::SqlStore;
use handover_system::LOG_LINES_DROPPED;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::terminal::dropped_lines;

/// The recorder of this process; it can be installed only once.
static COLLECTOR: OnceLock<PrometheusHandle> = OnceLock::new();

/// Interval of the recorder's upkeep.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Interval at which the gauges of the connection pools are set.
const POOL_INTERVAL: Duration = Duration::from_secs(1);
/// The revision from which the program was built: the variable HANDOVER_COMMIT of the build.
const COMMIT: &str = match option_env!("HANDOVER_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// 1, with the build of the program as labels.
const BUILD_INFO: Metric = Metric::gauge(
    "handover.build.info",
    "1; the labels are the version of the toolkit, the commit that was built (unknown if the build did not set \
     HANDOVER_COMMIT), and the schema version of the outbox that the program requires",
)
.by(&["version", "commit", "schema"]);

/// The metrics of the toolkit.
pub fn of_toolkit() -> impl Iterator<Item = &'static Metric> {
    static OF_PROCESS: &[Metric] = &[LOG_LINES_DROPPED, BUILD_INFO];
    let of_adapters = handover_http::METRICS.iter().chain(handover_sql::METRICS);
    METRICS.iter().chain(state::metrics()).chain(of_adapters).chain(OF_PROCESS)
}

/// Installs the recorder of the toolkit's metrics and of the application's. A second call changes nothing.
pub fn install(of_application: &'static [Metric]) {
    let is_count = |metric: &&Metric| metric.kind == MetricKind::Histogram && metric.buckets() != BUCKETS;
    let of_counts = of_toolkit().chain(of_application).filter(is_count);
    let standard = PrometheusBuilder::new().with_recommended_naming(true).set_buckets(&BUCKETS);
    let builder = of_counts.fold(standard, |builder, metric| {
        builder?.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.buckets())
    });
    match builder.and_then(PrometheusBuilder::install_recorder) {
        Ok(collector) => drop(COLLECTOR.set(collector)),
        Err(error) => tracing::debug!(%error, "metrics: recorder is installed already"),
    }
    for metric in of_toolkit().chain(of_application) {
        match metric.kind {
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
            // Not in the recorder, which exports a series as long as the process runs.
            MetricKind::State => {}
        }
    }
}

/// Renders the response of `/metrics`, if the recorder is installed.
pub fn render(state: Option<StateMetrics>) -> Option<Render> {
    let collector = COLLECTOR.get()?.clone();
    Some(Arc::new(move || {
        metrics::counter!(LOG_LINES_DROPPED.name).absolute(dropped_lines());
        collector.render() + &state.as_ref().map(StateMetrics::exposition).unwrap_or_default()
    }))
}

/// Registers the metrics of this process with an initial value, sets the gauges of the store's connection pools, and reads the
/// state of the deployment and of its database while this process leads. Does nothing without the recorder.
pub fn start(
    outbox: &Outbox,
    store: &SqlStore,
    of_application: &'static [Metric],
    mut sources: Vec<Arc<dyn StateSource>>,
    state_interval: Duration,
) -> Option<StateMetrics> {
    let collector = COLLECTOR.get()?;
    for metric in of_toolkit().chain(of_application) {
        register(metric, outbox.consumers());
    }
    let schema = handover_sql::outbox_schema().to_string();
    let version = env!("CARGO_PKG_VERSION");
    metrics::gauge!(BUILD_INFO.name, "version" => version, "commit" => COMMIT, "schema" => schema).set(1.0);
    let background = outbox.for_background_tasks();
    let upkeep = async move {
        loop {
            collector.run_upkeep();
            background.sleep(UPKEEP_INTERVAL).await;
        }
    };
    outbox.tasks().spawn_until_stop(upkeep);
    let background = outbox.for_background_tasks();
    let pools = store.clone();
    let sampling = async move {
        loop {
            pools.report_pools();
            background.sleep(POOL_INTERVAL).await;
        }
    };
    outbox.tasks().spawn_until_stop(sampling);
    sources.push(Arc::new(DatabaseState::new(Arc::new(store.clone()))));
    Some(StateMetrics::start(outbox, sources, state_interval))
}

/// A counter that is exported only after its first increment would look like a missing metric until then.
fn register(metric: &Metric, consumers: &[ConsumerQueue]) {
    match (metric.kind, metric.labels) {
        (MetricKind::Counter, []) => metrics::counter!(metric.name).increment(0),
        (MetricKind::Counter, ["consumer"]) => {
            for ConsumerQueue { consumer, .. } in consumers {
                metrics::counter!(metric.name, "consumer" => consumer.clone()).increment(0);
            }
        }
        (MetricKind::Gauge, []) => metrics::gauge!(metric.name).set(0.0),
        // Their labels are known when they are set.
        (MetricKind::Counter | MetricKind::Gauge | MetricKind::Histogram | MetricKind::State, _) => {}
    }
}
