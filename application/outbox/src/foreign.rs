//! Texts that others wrote, in messages and in rows inserted by hand: they may have any length and any character.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// What a NUL is written as: PostgreSQL stores none in a text.
const NUL: &str = "\\x00";

/// The text as every store can hold it: at most so many bytes of it, and no NUL.
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

/// SHA-256, hexadecimal.
pub(crate) fn hash(text: &str) -> String {
    let digits = Sha256::digest(text.as_bytes()).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
