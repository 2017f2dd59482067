//! Every decoder is given what its samples become when they are cut, spliced and bent: it refuses, and never panics.
//!
//! `tests/run --long` gives each 200,000 inputs.

use std::panic::catch_unwind;

use handover_fuzz::{DECODERS, Decoder, PLANTED, TOKENS};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A sample with parts of it cut out, doubled, replaced by bytes that mean something to somebody.
fn bent(samples: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edit = (
        any::<prop::sample::Index>(),
        0..12_usize,
        prop_oneof![
            prop::sample::select(&TOKENS[..]).prop_map(|token| token.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..6),
        ],
    );
    (prop::sample::select(samples), prop::collection::vec(edit, 0..5)).prop_map(|(mut bytes, edits)| {
        for (place, length, new) in edits {
            let begin = place.index(bytes.len() + 1);
            let end = bytes.len().min(begin + length);
            bytes.splice(begin..end, new);
        }
        bytes
    })
}

/// As it is first, then bent.
fn decodes_whatever_it_is_given(decoder: &Decoder, inputs: usize) {
    let samples = (decoder.samples)();
    assert!(!samples.is_empty(), "{} has no samples", decoder.name);
    // A seed that is the same each time: what fails here fails everywhere.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let bent = bent(samples.clone());
    let bent = std::iter::repeat_with(|| bent.new_tree(&mut runner).unwrap().current()).take(inputs);
    for input in samples.into_iter().chain(bent) {
        let outcome = catch_unwind(|| (decoder.decode)(&input));
        assert!(outcome.is_ok(), "{}: {}", decoder.name, input.escape_ascii());
    }
}

#[test]
fn no_decoder_panics_or_breaks_a_promise_whatever_it_is_given() {
    let inputs = if handover_tests::long() { 200_000 } else { 3_000 };
    for decoder in &DECODERS {
        decodes_whatever_it_is_given(decoder, inputs);
    }
}

/// That is what the other way of feeding them is for: `tests/fuzz/tests/guided/` finds it.
#[test]
#[ignore = "long: 200,000 inputs; the counterpart of the guided fuzzing, which is long too"]
fn bending_at_random_does_not_find_the_planted_fault() {
    decodes_whatever_it_is_given(&PLANTED, 200_000);
}
