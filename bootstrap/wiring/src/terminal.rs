//! The terminal: common flags, output and progress.

mod args;
pub mod output;
pub mod progress;

use std::io::{self, Write};

use crate::Failure;
use crate::config::Sources;

pub use args::{Address, Common, Flag, Output, OutputArgs, whole};

/// Prints a note to stderr; notes are never part of a command's output. A closed stderr is not an error.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints the warnings about these sources to stderr.
pub fn warn(sources: &Sources) {
    for warning in sources.warnings() {
        note(&format!("warning: {warning}"));
    }
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
