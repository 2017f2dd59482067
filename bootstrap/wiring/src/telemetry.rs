//! Logging to stderr (text on a terminal, JSON elsewhere) and trace export. Stdout is reserved for the output of commands.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::Mutex;

use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// Trace export, if enabled. [`Telemetry::end`] flushes it before the process exits.
#[derive(Default)]
#[must_use = "queued spans are lost unless `end` is called"]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    traces: Option<handover_otlp::Exporter>,
}

impl Telemetry {
    /// Exports the queued spans, within a few seconds.
    pub async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = self.traces
            && let Err(error) = tokio::task::spawn_blocking(move || traces.stop()).await
        {
            tracing::debug!(%error, "telemetry: trace exporter did not stop");
        }
    }
}

/// Installs logging for this process, and trace export if configured. A second call changes nothing.
pub fn install(config: &LogConfig) -> Telemetry {
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
    if let Err(error) =
        tracing_subscriber::registry().with(config.filter.clone()).with(lines).with(hops).try_init()
    {
        tracing::debug!(%error, "telemetry: logging is installed already");
    }
    telemetry
}

#[cfg(feature = "otel")]
fn traces(config: &LogConfig) -> (Telemetry, Option<handover_otlp::HopLayer>) {
    let Some(endpoint) = &config.traces else { return Default::default() };
    match handover_otlp::Exporter::start(endpoint, tokio::runtime::Handle::current()) {
        Ok(traces) => {
            let hops = traces.layer();
            (Telemetry { traces: Some(traces) }, Some(hops))
        }
        // The service also runs without trace export.
        Err(error) => {
            eprintln!("handover: trace export is disabled: {error}");
            Default::default()
        }
    }
}

#[cfg(not(feature = "otel"))]
fn traces(_: &LogConfig) -> (Telemetry, Option<tracing_subscriber::layer::Identity>) {
    Default::default()
}

/// Installs logging as JSON lines to a file. A second call changes nothing.
pub fn install_to_file(config: &LogConfig, file: File) {
    let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(file));
    let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
    if let Err(error) = tracing_subscriber::registry().with(config.filter.clone()).with(lines).try_init() {
        tracing::debug!(%error, "telemetry: logging is installed already");
    }
}
