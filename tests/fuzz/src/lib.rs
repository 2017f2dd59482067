//! Every decoder of what comes from outside, as a function of bytes that panics when it breaks a promise.
//!
//! Two things feed them: `tests/ports/decoders.rs` bends their samples at random, and the program `fuzz` is guided by the code that
//! an input reaches. A decoder more is a line in [`DECODERS`], and its samples.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a broken promise panics with what it saw; the gateway signs by the clock of the machine"
)]

mod asked;
mod edge;
mod samples;
mod values;

/// A decoder.
#[derive(Debug, Clone, Copy)]
pub struct Decoder {
    /// What it is called, and the folder of its corpus.
    pub name: &'static str,
    /// What is done with bytes that somebody sends it. Panics when a promise is broken.
    pub decode: fn(&[u8]),
    /// What it takes, to begin with.
    pub samples: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const DECODERS: [Decoder; 10] = [
    Decoder { name: "envelope", decode: values::envelope, samples: samples::envelope },
    Decoder { name: "token", decode: values::token, samples: samples::token },
    Decoder { name: "claims", decode: values::claims, samples: samples::claims },
    Decoder { name: "keys", decode: values::keys, samples: samples::keys },
    Decoder { name: "config", decode: values::config, samples: samples::config },
    Decoder { name: "callback", decode: asked::callback, samples: samples::callback },
    Decoder { name: "cursor", decode: asked::cursor, samples: samples::cursor },
    Decoder { name: "target", decode: asked::target, samples: samples::target },
    Decoder { name: "headers", decode: asked::headers, samples: samples::headers },
    Decoder { name: "body", decode: asked::body, samples: samples::body },
];

/// None of ours: it panics at ten bytes in 2^80, which are found by who is told of comparisons and of branches, and by
/// nobody else. What the tools are tested with.
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

/// Bytes that mean something to some decoder.
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
    // How two features of serde_json write what they keep as text: whoever sends these names reaches them.
    "$serde_json::private::Number",
    "$serde_json::private::RawValue",
];

/// A dictionary for libFuzzer: [`TOKENS`], and the words of the decoder's samples.
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
