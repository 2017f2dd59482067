//! Logging to stderr (text on a terminal, JSON elsewhere) and trace export. Stdout is reserved for the output of commands.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::Mutex;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
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

/// Why a list of directives is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterError {
    /// It is empty, or one of its parts is not a directive.
    NoDirective,
    /// A part filters by a span or by fields (`target[span{field}]=level`).
    Span,
}

impl FilterError {
    /// The reason, for the user.
    pub fn why(self) -> &'static str {
        match self {
            FilterError::NoDirective => "it is neither a level nor a list of directives",
            FilterError::Span => {
                "filters by span or field ([...]) are not supported, only a level and target=level"
            }
        }
    }
}

/// Parses comma-separated directives: a level, `target=level`, or `target=` for all levels. A directive covers every target
/// with that prefix; the longest prefix wins. A single word is always a level: if it were parsed as a target, a mistyped
/// level would turn off all logging, alerts included.
pub fn filter(directives: &str) -> Result<Targets, FilterError> {
    if directives.is_empty() {
        return Err(FilterError::NoDirective);
    }
    // lapin logs whole messages and logs every lost connection as an error; handover-rabbitmq logs what matters.
    let mut targets = Targets::new().with_target("lapin", LevelFilter::OFF);
    for directive in directives.split(',').filter(|directive| !directive.is_empty()) {
        let directive = directive.trim();
        if directive.contains(['[', ']', '{', '}']) {
            return Err(FilterError::Span);
        }
        if !directive.starts_with(|first: char| first.is_alphanumeric() || "-:_".contains(first)) {
            return Err(FilterError::NoDirective);
        }
        targets = match directive.split_once('=') {
            Some((target, "")) => targets.with_target(target, LevelFilter::TRACE),
            Some((target, level)) => {
                let level: LevelFilter = level.parse().map_err(|_| FilterError::NoDirective)?;
                targets.with_target(target, level)
            }
            None => {
                targets.with_default(directive.parse::<LevelFilter>().map_err(|_| FilterError::NoDirective)?)
            }
        };
    }
    Ok(targets)
}

/// Installs logging as JSON lines to a file. A second call changes nothing.
pub fn install_to_file(config: &LogConfig, file: File) {
    let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(file));
    let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
    if let Err(error) = tracing_subscriber::registry().with(config.filter.clone()).with(lines).try_init() {
        tracing::debug!(%error, "telemetry: logging is installed already");
    }
}
