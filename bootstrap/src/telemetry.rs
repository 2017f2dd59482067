//! Log lines: to stderr, JSON unless a person reads them on a terminal. Stdout belongs to what a command answers.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::Mutex;

use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{LogConfig, LogFormat};

/// What has to be ended before the process is: the export of traces, where there is one.
#[derive(Default)]
#[must_use = "what is queued is lost without its end"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    traces: Option<handover_otlp::Exporter>,
}

impl Telemetry {
    /// Sends what is queued, within a few seconds.
    pub async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces
            && let Err(error) = tokio::task::spawn_blocking(move || traces.stop()).await
        {
            tracing::debug!(%error, "the export of traces did not end");
        }
    }
}

/// Installs the log for this process, and the export of traces where it is asked for. A second call changes nothing.
pub fn install(config: &LogConfig) -> Telemetry {
    let filter = filter(config);
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_span_events(FmtSpan::NONE);
    let lines = if json {
        lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    let (telemetry, hops) = traces(config);
    if let Err(error) = tracing_subscriber::registry().with(filter).with(lines).with(hops).try_init() {
        tracing::debug!(%error, "the log is installed already");
    }
    telemetry
}

#[cfg(feature = "otel")]
fn traces(config: &LogConfig) -> (Telemetry, Option<handover_otlp::Hops>) {
    let Some(endpoint) = &config.traces else { return Default::default() };
    match handover_otlp::Exporter::start(endpoint, tokio::runtime::Handle::current()) {
        Ok(traces) => {
            let hops = traces.layer();
            (Telemetry { traces: Some(traces) }, Some(hops))
        }
        // Traces are a help, not a condition.
        Err(error) => {
            eprintln!("handover: no traces are exported: {error}");
            Default::default()
        }
    }
}

#[cfg(not(feature = "otel"))]
fn traces(_: &LogConfig) -> (Telemetry, Option<tracing_subscriber::layer::Identity>) {
    Default::default()
}

/// What is logged. The driver of RabbitMQ prints whole messages and tells every lost connection as an error of its own;
/// its adapter tells what matters.
fn filter(config: &LogConfig) -> EnvFilter {
    EnvFilter::builder().parse_lossy(format!("lapin=off,{}", config.level))
}

/// Installs the log of this process as JSON lines in a file. A second call changes nothing.
pub(crate) fn install_in(config: &LogConfig, file: File) {
    let filter = filter(config);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Mutex::new(file));
    let json = builder.json().flatten_event(true).with_current_span(true).with_span_list(false);
    if let Err(error) = json.try_init() {
        tracing::debug!(%error, "the log is installed already");
    }
}
