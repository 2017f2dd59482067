//! Logging to stderr (text on a terminal, JSON elsewhere) and trace export. Stdout is reserved for the output of commands.

mod text_line;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use std::sync::Mutex;

use handover_outbox::{Outbox, SPAN_TARGET};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, FilterFn, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use crate::failure::Failure;
use crate::settings::{BrokerChoice, LogConfig, LogFormat};
use crate::terminal::queue_stderr;
use text_line::{Fields, TextLine};

/// Logging and trace export of this process. [`Telemetry::end`] flushes the traces before the process exits.
#[derive(Default)]
#[must_use = "queued spans are lost unless `end` is called"]
pub struct Telemetry {
    filter: Option<reload::Handle<Targets, Registry>>,
    #[cfg(feature = "otel")]
    traces: Option<handover_otlp::Exporter>,
}

impl Telemetry {
    /// Replaces the levels of log lines.
    pub fn set_filter(&self, filter: Targets) {
        if let Some(handle) = &self.filter
            && let Err(error) = handle.reload(filter)
        {
            tracing::debug!(%error, "telemetry: cannot replace the filter of the log");
        }
    }

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

/// Installs logging for this process, and trace export if configured. A second call changes nothing. From this call on,
/// stderr is written by a thread of its own: a reader that stalls delays no work.
pub fn install(config: &LogConfig) -> Result<Telemetry, Failure> {
    let is_terminal = std::io::stderr().is_terminal();
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !is_terminal,
    };
    let stderr = queue_stderr().map_err(Failure::no_log_thread)?;
    let writer = move || stderr.clone();
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).with_span_events(FmtSpan::NONE);
    let (filter, handle) = reload::Layer::new(config.lines());
    let filter = filter.or(spans()).and(without_exported_spans());
    let lines = if json {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .with_filter(filter)
            .boxed()
    } else {
        lines.with_ansi(is_terminal).fmt_fields(Fields).event_format(TextLine).with_filter(filter).boxed()
    };
    let (mut telemetry, hops, refusal) = traces(config);
    match tracing_subscriber::registry().with(lines).with(hops).try_init() {
        Ok(()) => {
            telemetry.filter = Some(handle);
            std::panic::set_hook(Box::new(log_panic));
        }
        Err(error) => tracing::debug!(%error, "telemetry: logging is installed already"),
    }
    // The service also runs without trace export.
    if let Some(error) = refusal {
        tracing::warn!(error, "telemetry: trace export is disabled");
    }
    Ok(telemetry)
}

/// The default hook would write to stderr itself, and would wait for a reader that stalls.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let location = panic.location().map(ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("no message");
    tracing::error!(location, backtrace, "process: thread panicked: {message}");
}

/// Enables the spans of requests and events whatever the level of log lines is: a line that is logged has their fields.
fn spans() -> FilterFn {
    let is_visible: fn(&Metadata<'_>) -> bool =
        |metadata| metadata.is_span() && *metadata.level() <= Level::INFO;
    filter_fn(is_visible).with_max_level_hint(LevelFilter::INFO)
}

/// The spans of relay and consumers are only exported: no log line needs their fields.
fn without_exported_spans() -> FilterFn {
    let is_logged: fn(&Metadata<'_>) -> bool = |metadata| metadata.target() != SPAN_TARGET;
    filter_fn(is_logged).with_max_level_hint(LevelFilter::TRACE)
}

/// Lets relay and consumers open the spans that `log.traces` exports.
#[cfg(feature = "otel")]
pub fn with_spans(outbox: Outbox, config: &LogConfig, broker: &BrokerChoice) -> Outbox {
    match config.traces {
        Some(_) => outbox.with_spans(std::sync::Arc::new(handover_otlp::SpanContexts), broker.system()),
        None => outbox,
    }
}

/// Nothing is exported.
#[cfg(not(feature = "otel"))]
pub fn with_spans(outbox: Outbox, _: &LogConfig, _: &BrokerChoice) -> Outbox {
    outbox
}

/// The registry with the layer of log lines.
#[cfg(feature = "otel")]
type Lined = tracing_subscriber::layer::Layered<Box<dyn Layer<Registry> + Send + Sync>, Registry>;

#[cfg(feature = "otel")]
fn traces(config: &LogConfig) -> (Telemetry, Option<impl Layer<Lined>>, Option<String>) {
    let Some(endpoint) = &config.traces else { return Default::default() };
    match handover_otlp::Exporter::start(endpoint, tokio::runtime::Handle::current()) {
        Ok(traces) => {
            let hops = traces.layer().with_filter(handover_otlp::hops());
            (Telemetry { traces: Some(traces), ..Telemetry::default() }, Some(hops), None)
        }
        Err(error) => (Telemetry::default(), None, Some(error.to_string())),
    }
}

#[cfg(not(feature = "otel"))]
fn traces(_: &LogConfig) -> (Telemetry, Option<tracing_subscriber::layer::Identity>, Option<String>) {
    Default::default()
}

/// Installs logging as JSON lines to a file. A second call changes nothing.
pub fn install_to_file(config: &LogConfig, file: File) {
    let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(file));
    let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
    if let Err(error) = tracing_subscriber::registry().with(config.lines()).with(lines).try_init() {
        tracing::debug!(%error, "telemetry: logging is installed already");
    }
}
