//! Texts that people write: bounded, and free of control characters.

/// Why a text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {max} characters without control characters")]
pub struct TextError {
    /// The greatest number of characters.
    pub max: usize,
}

impl TextError {
    /// Whether a text has 1 to `max` characters, not all of them blank, and none a control character.
    pub fn check(text: &str, max: usize) -> Result<(), TextError> {
        let legal =
            !text.trim().is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control);
        if legal { Ok(()) } else { Err(TextError { max }) }
    }
}
