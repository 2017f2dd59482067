//! Log lines: to stderr, JSON unless a person reads them on a terminal. Stdout belongs to what a command answers.

use std::fs::File;
use std::io::IsTerminal;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{LogConfig, LogFormat};

/// Installs the log for this process. A second call changes nothing.
pub fn install(config: &LogConfig) {
    let filter = filter(config);
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE);
    let installed = if json {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).try_init()
    };
    if let Err(error) = installed {
        tracing::debug!(%error, "the log is installed already");
    }
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
