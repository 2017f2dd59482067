//! Fuzzes one decoder with libFuzzer, guided by coverage. It has libFuzzer's command line; `HANDOVER_DECODER` selects
//! the decoder.
//!
//! `tests/run` builds it with the instrumentation that libFuzzer needs. Without instrumentation it prints an error and
//! exits.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod guided {
    use std::sync::OnceLock;

    use handover_fuzz::{DECODERS, Decoder, PLANTED};
    use libfuzzer_sys::fuzz_target;

    fn selected() -> &'static Decoder {
        static CHOSEN: OnceLock<Decoder> = OnceLock::new();
        CHOSEN.get_or_init(from_environment)
    }

    fn from_environment() -> Decoder {
        let name = std::env::var("HANDOVER_DECODER").unwrap_or_default();
        let all = || DECODERS.into_iter().chain([PLANTED]);
        all().find(|decoder| decoder.name == name).unwrap_or_else(|| {
            let all: Vec<&str> = all().map(|decoder| decoder.name).collect();
            eprintln!("HANDOVER_DECODER is \"{name}\"; set it to one of {}", all.join(", "));
            std::process::exit(2)
        })
    }

    // The decoder is selected before the first input, so that an unknown name is reported even without inputs.
    fuzz_target!(init: selected(), |bytes: &[u8]| (selected().decode)(bytes));
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    eprintln!("fuzz: built without coverage instrumentation; see `tests/run --help` for how to build it");
    std::process::ExitCode::from(2)
}
