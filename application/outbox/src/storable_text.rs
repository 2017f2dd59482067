//! Untrusted text from messages and from rows inserted by SQL: it may have any length and contain any character.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// Replacement for NUL, which PostgreSQL cannot store in a text column.
const NUL: &str = "\\x00";

/// The text in a form that every store accepts: at most `most` bytes, without NUL.
pub(crate) fn storable(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most && !text.contains('\0') {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len().min(most));
    for character in text.chars() {
        let mut buffer = [0; 4];
        let written: &str = if character == '\0' { NUL } else { character.encode_utf8(&mut buffer) };
        if kept.len() + written.len() > most {
            break;
        }
        kept.push_str(written);
    }
    Cow::Owned(kept)
}

/// SHA-256 in hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    let digits = Sha256::digest(text.as_bytes()).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
