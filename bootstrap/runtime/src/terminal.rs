//! The terminal: common flags, output and progress.

mod args;
pub mod output;
pub mod progress;
mod stderr;

use std::io::{self, Write};

use crate::config::{Keys, Sources};
use crate::failure::Failure;

pub use args::{Address, Common, Flag, Output, OutputArgs, whole};
pub(crate) use stderr::dropped_lines;
pub use stderr::{flush, queue_stderr};

/// Prints a note to stderr; notes are never part of a command's output. A closed stderr is not an error.
pub fn note(text: &str) {
    stderr::write_line(text);
}

/// Prints the warnings about these sources of a configuration with these keys to stderr.
pub fn warn(keys: &Keys, sources: &Sources) {
    for warning in keys.warnings(sources) {
        note(&format!("warning: {warning}"));
    }
}

/// Like [`say`], without blocking other tasks while the reader of stdout stalls.
pub async fn say_later(text: String) -> Result<(), Failure> {
    let said = tokio::task::spawn_blocking(move || say(&text)).await;
    said.unwrap_or_else(|error| Err(Failure::System { what: "cannot write to stdout", cause: error.into() }))
}

/// Writes to stdout. A closed pipe is not an error.
pub fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::System { what: "cannot write to stdout", cause })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
