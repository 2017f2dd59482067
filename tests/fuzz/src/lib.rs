//! One function per decoder of external input: it decodes bytes and panics when a guarantee is violated.
//!
//! `tests/ports/decoders.rs` calls the decoders with random mutations of their samples; the program `fuzz` is guided by
//! code coverage. To add a decoder, add a line to [`DECODERS`] and its samples.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a violated guarantee panics with the observed value; the gateway signs with the system clock"
)]

mod edge;
mod requests;
mod samples;
mod values;

#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    /// Name of the decoder and of its corpus folder.
    pub name: &'static str,
    /// Decodes untrusted bytes. Panics when a guarantee is violated.
    pub decode: fn(&[u8]),
    /// Valid inputs to start from.
    pub samples: fn() -> Vec<Vec<u8>>,
}

pub const DECODERS: [Decoder; 10] = [
    Decoder { name: "envelope", decode: values::envelope, samples: samples::envelope },
    Decoder { name: "token", decode: values::token, samples: samples::token },
    Decoder { name: "claims", decode: values::claims, samples: samples::claims },
    Decoder { name: "keys", decode: values::keys, samples: samples::keys },
    Decoder { name: "config", decode: values::config, samples: samples::config },
    Decoder { name: "callback", decode: requests::callback, samples: samples::callback },
    Decoder { name: "cursor", decode: requests::cursor, samples: samples::cursor },
    Decoder { name: "target", decode: requests::target, samples: samples::target },
    Decoder { name: "headers", decode: requests::headers, samples: samples::headers },
    Decoder { name: "body", decode: requests::body, samples: samples::body },
];

/// A decoder with a planted fault, to test the fuzzing itself. It panics for one of 2^80 inputs; this input can be
/// found only with feedback about comparisons and branches.
pub const PLANTED: Decoder = Decoder { name: "planted", decode: planted, samples: || vec![vec![b'-'; 16]] };

fn planted(bytes: &[u8]) {
    let (Some(magic), Some(rest)) = (bytes.first_chunk::<8>(), bytes.get(8..)) else { return };
    if u64::from_le_bytes(*magic) != 0x6f76_6572_6861_6e64 {
        return;
    }
    if rest.first() == Some(&b'!') {
        let second = rest.get(1).copied().unwrap_or_default();
        assert!(second != b'?', "the planted fault was found");
    }
}

/// Bytes with a special meaning for some decoder.
pub const TOKENS: [&str; 24] = [
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "-0.0",
    "9007199254740992",
    "9223372036854775808",
    "\"\"",
    "{}",
    "[[[[",
    "\u{0}",
    "\u{feff}",
    "é",
    "\\ud800",
    "2026-02-30",
    "2016-12-31T23:59:60Z",
    "9999-12-31T23:59:59-00:01",
    "+262143-01-01T00:00:00Z",
    "=",
    "'''",
    "%",
    // Field names that serde_json's features use internally to keep numbers and raw values as text.
    "$serde_json::private::Number",
    "$serde_json::private::RawValue",
];

/// A dictionary for libFuzzer: [`TOKENS`] and the words of the decoder's samples.
pub fn dictionary(decoder: &Decoder) -> String {
    let samples: Vec<String> =
        (decoder.samples)().iter().map(|sample| String::from_utf8_lossy(sample).into_owned()).collect();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.+:".contains(c);
    let words = samples.iter().flat_map(|sample| sample.split(|c| !is_word(c)));
    let words: std::collections::BTreeSet<&str> =
        words.filter(|word| (2..=40).contains(&word.len())).chain(TOKENS).collect();
    let escaped = |word: &str| word.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    words.into_iter().map(|word| format!("\"{}\"\n", escaped(word))).collect()
}
