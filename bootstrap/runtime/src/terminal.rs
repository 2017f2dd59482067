//! The terminal: common flags, output and progress.

#[cfg(feature = "process")]
mod args;
mod flags;
pub mod output;
#[cfg(feature = "process")]
pub mod progress;
mod stderr;

use std::io::{self, Write};

#[cfg(feature = "process")]
use crate::config::{Keys, Sources};

#[cfg(feature = "process")]
pub use args::{Address, Common, Flag};
pub use flags::{Output, OutputArgs, whole};
pub use stderr::{dropped_lines, flush, queue_stderr};

/// Stdout cannot be written.
#[derive(Debug)]
pub struct OutputError(pub io::Error);

/// Prints a note to stderr; notes are never part of a command's output. A closed stderr is not an error.
pub fn note(text: &str) {
    stderr::write_line(text);
}

/// Prints the warnings about these sources of a configuration with these keys to stderr.
#[cfg(feature = "process")]
pub fn warn(keys: &Keys, sources: &Sources) {
    for warning in keys.warnings(sources) {
        note(&format!("warning: {warning}"));
    }
}

/// Like [`say`], without blocking other tasks while the reader of stdout stalls.
#[cfg(feature = "process")]
pub async fn say_later(text: String) -> Result<(), OutputError> {
    let said = tokio::task::spawn_blocking(move || say(&text)).await;
    said.unwrap_or_else(|error| Err(OutputError(error.into())))
}

/// Writes to stdout. A closed pipe is not an error.
pub fn say(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => Err(OutputError(cause)),
        Ok(()) | Err(_) => Ok(()),
    }
}
