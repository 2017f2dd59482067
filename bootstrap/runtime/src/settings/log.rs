//! Logging and trace export: `[log]`.

use handover_outbox::EVENT_TARGET;
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::config::{Checked, ConfigError, Item, Kind, Reader};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON lines elsewhere.
    Auto,
    /// JSON lines.
    Json,
    /// Text.
    Text,
}

/// Logging and trace export.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `log.level`: a level, or directives such as `info,handover_outbox=debug`.
    pub filter: Targets,
    /// `log.events`: whether every event that is appended, published and applied has its own lines; otherwise a summary.
    pub events: bool,
    /// `log.format`.
    pub format: LogFormat,
    /// `log.traces`: `http://host:port` of an OpenTelemetry collector; `None`: off.
    pub traces: Option<String>,
}

impl LogConfig {
    /// Filter of log lines: `log.level`, without the lines about single events if `log.events` is false.
    pub fn lines(&self) -> Targets {
        match self.events {
            true => self.filter.clone(),
            false => self.filter.clone().with_target(EVENT_TARGET, LevelFilter::OFF),
        }
    }
}

/// Reads `log.*`.
pub fn log(reader: &Reader<'_>) -> Checked<LogConfig> {
    let filter = reader.key(Kind::Text, "log.level", "info", |item| {
        let remedy =
            "write error, warn, info, debug or trace, or levels per target: info,handover_outbox=debug";
        filter(&item.as_text()?).map_err(|refused| item.refused(refused.why(), remedy))
    });
    let formats = [("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];
    let format = reader.one_of("log.format", &formats);
    let events = reader.boolean("log.events", "true");
    let traces = reader.key(Kind::Url, "log.traces", "off", traces);
    Ok(LogConfig { filter: filter?, events: events?, format: format?, traces: traces? })
}

fn traces(item: &Item) -> Result<Option<String>, ConfigError> {
    let endpoint = item.as_text()?;
    if endpoint == "off" {
        return Ok(None);
    }
    if !cfg!(feature = "otel") {
        let remedy = "build the program with --features otel, or set log.traces to off";
        return Err(item.refused("this program was built without trace export", remedy));
    }
    let host = endpoint.strip_prefix("http://").unwrap_or_default();
    if host.is_empty() || host.contains(['@', '?', ' ']) {
        let remedy =
            "write off, or http://host:port of an OpenTelemetry collector, such as http://127.0.0.1:4318";
        return Err(item.refused("it is not the address of a collector that accepts OTLP over HTTP", remedy));
    }
    Ok(Some(endpoint))
}

/// Reason why a list of directives is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterError {
    /// The list is empty, or one of its items is not a directive.
    NoDirective,
    /// A directive filters by a span or by fields (`target[span{field}]=level`).
    Span,
}

impl FilterError {
    /// The reason why the list is refused, as text for the user.
    fn why(self) -> &'static str {
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
fn filter(directives: &str) -> Result<Targets, FilterError> {
    if directives.is_empty() {
        return Err(FilterError::NoDirective);
    }
    // lapin logs whole messages and logs every lost connection as an error; handover-rabbitmq logs what matters.
    // object_store logs each retry at INFO; the archive reports what failed after the last one.
    let mut targets =
        Targets::new().with_target("lapin", LevelFilter::OFF).with_target("object_store", LevelFilter::WARN);
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
