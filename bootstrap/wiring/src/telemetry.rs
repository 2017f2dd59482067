//! Log lines: to stderr, JSON unless a person reads them on a terminal. Stdout belongs to what a command answers.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::Mutex;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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

/// Why a list of directives is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterError {
    /// It is empty, or a part of it is nothing that is known.
    NoDirective,
    /// A part filters by a span or by fields (`target[span{field}]=level`).
    Span,
}

impl FilterError {
    /// What is wrong with it.
    pub fn why(self) -> &'static str {
        match self {
            FilterError::NoDirective => "it is no level and no list of directives",
            FilterError::Span => {
                "filters by span or field ([...]) are not supported, only a level and target=level"
            }
        }
    }
}

/// Reads directives with commas between them: a level, `target=level`, or `target=` for all of its levels. A target covers
/// every target that begins with it, and the longest one decides. A single word is always a level: taken for a target, a
/// mistyped level would turn off everything, alerts included.
pub fn filter(directives: &str) -> Result<Targets, FilterError> {
    if directives.is_empty() {
        return Err(FilterError::NoDirective);
    }
    // The driver of RabbitMQ prints whole messages and reports every lost connection as an error of its own; its adapter
    // reports what matters.
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

/// Installs the log of this process as JSON lines in a file. A second call changes nothing.
pub fn install_in(config: &LogConfig, file: File) {
    let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(file));
    let lines = lines.json().flatten_event(true).with_current_span(true).with_span_list(false);
    if let Err(error) = tracing_subscriber::registry().with(config.filter.clone()).with(lines).try_init() {
        tracing::debug!(%error, "the log is installed already");
    }
}
