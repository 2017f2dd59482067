//! Kinds of errors, for the breaker of a consumer.

/// What an error is about, without the values of one event: the text in which every word with a digit is replaced.
/// Failures of the same kind probably have the same cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorKind(String);

impl ErrorKind {
    /// The kind of an error with this text.
    pub fn of(text: &str) -> ErrorKind {
        let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let mut kind = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            let is_value = is_word(first) && part.contains(|c: char| c.is_ascii_digit());
            kind.push_str(if is_value { "#" } else { part });
            rest = after;
        }
        ErrorKind(kind)
    }
}
