//! Tests specific to the store and the broker in memory. The contract suites cover the rules for all adapters.

mod broker;
mod outbox;
mod own_store;
mod own_tables;
mod store;

use handover_memory::SeededRandom;
use handover_outbox::ports::RandomSource;

#[test]
fn seeded_random_matches_reference_implementation() {
    let random = SeededRandom::new(1_234_567);
    assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
}
