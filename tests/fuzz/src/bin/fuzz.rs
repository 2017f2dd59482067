//! Fuzzes one decoder, guided by coverage: libFuzzer's command line, and `HANDOVER_DECODER` says which decoder.
//!
//! `tests/run` builds it with the instrumentation that libFuzzer needs; built otherwise it says so and ends.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
mod guided {
    use std::sync::OnceLock;

    use handover_fuzz::{DECODERS, Decoder, PLANTED};
    use libfuzzer_sys::fuzz_target;

    fn chosen() -> &'static Decoder {
        static CHOSEN: OnceLock<Decoder> = OnceLock::new();
        CHOSEN.get_or_init(named)
    }

    fn named() -> Decoder {
        let name = std::env::var("HANDOVER_DECODER").unwrap_or_default();
        let known = || DECODERS.into_iter().chain([PLANTED]);
        known().find(|decoder| decoder.name == name).unwrap_or_else(|| {
            let known: Vec<&str> = known().map(|decoder| decoder.name).collect();
            eprintln!("HANDOVER_DECODER is \"{name}\"; set it to one of {}", known.join(", "));
            std::process::exit(2)
        })
    }

    // Chosen before the first input: nothing is fuzzed under a name that nobody has.
    fuzz_target!(init: chosen(), |bytes: &[u8]| (chosen().decode)(bytes));
}

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    eprintln!(
        "fuzz: built without instrumentation, so nothing would guide it; `tests/run --help` says how it is built"
    );
    std::process::ExitCode::from(2)
}
