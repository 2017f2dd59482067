//! Validation of texts entered by users: limited length, no control characters.

/// A text is blank, too long, or contains control characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {max} characters without control characters")]
pub struct TextError {
    /// Maximum number of characters.
    pub max: usize,
}

impl TextError {
    /// Checks that a text has 1 to `max` characters, is not blank, and contains no control character.
    pub fn check(text: &str, max: usize) -> Result<(), TextError> {
        let legal =
            !text.trim().is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control);
        if legal { Ok(()) } else { Err(TextError { max }) }
    }
}
