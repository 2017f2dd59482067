//! The terminal: common flags, output and progress.

mod args;
pub mod output;
pub mod progress;

use std::io::{self, Write};

use crate::Failure;

pub use args::{Address, Common, Flag, Output, OutputArgs, whole};

/// Prints a note to stderr; notes are never part of a command's output.
pub fn note(text: &str) {
    eprintln!("{text}");
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
