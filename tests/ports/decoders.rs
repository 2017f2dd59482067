//! Every decoder receives random mutations of its samples: it may reject them, but must not panic.
//!
//! `tests/run --long` uses 200,000 inputs per decoder.

use std::panic::catch_unwind;

use handover_fuzz::{DECODERS, Decoder, PLANTED, TOKENS};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Mutates a sample: random parts are cut, replaced by random bytes, or replaced by bytes with a special meaning.
fn mutated(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edit = (
        any::<prop::sample::Index>(),
        0..12_usize,
        prop_oneof![
            prop::sample::select(&TOKENS[..]).prop_map(|token| token.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..6),
        ],
    );
    (prop::sample::select(samples), prop::collection::vec(edit, 0..5)).prop_map(|(mut bytes, edits)| {
        for (position, length, new) in edits {
            let begin = position.index(bytes.len() + 1);
            let end = bytes.len().min(begin + length);
            bytes.splice(begin..end, new);
        }
        bytes
    })
}

/// Decodes the samples first unchanged, then mutated.
fn assert_decodes_all(decoder: &Decoder, inputs: usize) {
    let samples = (decoder.samples)();
    assert!(!samples.is_empty(), "{} has no samples", decoder.name);
    // The seed is fixed, so that a failure is reproducible on every machine.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mutated = mutated(samples.clone());
    let mutated = std::iter::repeat_with(|| mutated.new_tree(&mut runner).unwrap().current()).take(inputs);
    for input in samples.into_iter().chain(mutated) {
        let outcome = catch_unwind(|| (decoder.decode)(&input));
        assert!(outcome.is_ok(), "{}: {}", decoder.name, input.escape_ascii());
    }
}

#[test]
fn no_decoder_panics_on_mutated_samples() {
    let inputs = if handover_tests::long() { 200_000 } else { 1_000 };
    for decoder in &DECODERS {
        assert_decodes_all(decoder, inputs);
    }
}

/// Only the coverage-guided fuzzing in `tests/fuzz/tests/guided/` finds the planted fault.
#[test]
#[ignore = "long: 200,000 inputs; counterpart of the guided fuzzing, which is long too"]
fn random_mutation_does_not_find_planted_fault() {
    assert_decodes_all(&PLANTED, 200_000);
}
