//! The terminal: the flags that programs have in common, what they print, and how far they are.

mod args;
pub mod output;
pub mod progress;

use std::io::{self, Write};

use crate::Failure;

pub use args::{Address, Common, Flag, Output, OutputArgs, whole};

/// For whoever reads along; never part of the answer.
pub fn note(text: &str) {
    eprintln!("{text}");
}

/// Writes to stdout. Whoever closed it does not want to know.
pub fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::System { what: "stdout cannot be written", cause })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
