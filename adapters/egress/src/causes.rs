//! Texts of errors.

use std::error::Error;

/// Formats an error and its sources as one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        message.push_str(": ");
        message.push_str(&source.to_string());
        next = source.source();
    }
    message
}
