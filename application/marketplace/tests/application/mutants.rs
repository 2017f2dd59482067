//! Tests of the planted-fault switch: `cargo test -p marketplace --features mutants`.

use std::collections::BTreeSet;

use marketplace::mutants::{Mutant, names, plant, struck};

use crate::support::World;

#[test]
fn mutant_names_are_unique_and_match_their_variants() {
    let all = names();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    let of_outbox = handover_outbox::mutants::Mutant::ALL.iter().map(|it| (it.name(), format!("{it:?}")));
    let of_marketplace = Mutant::ALL.iter().map(|it| (it.name(), format!("{it:?}")));
    for (name, variant) in of_outbox.chain(of_marketplace) {
        assert_eq!(name.replace('-', ""), variant.to_lowercase());
        assert!(all.contains(&name));
    }
}

/// Places an order on this thread. Returns how often the planted fault took effect on it so far.
fn activations_after_an_order() -> u64 {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
        World::new().await.process().ordered().await;
    });
    struck()
}

#[test]
fn planted_fault_is_active_only_on_the_thread_that_planted_it() {
    plant(Some(Mutant::EventOutsideTransaction.name()));
    let elsewhere = std::thread::spawn(activations_after_an_order).join();
    assert_eq!(elsewhere.ok(), Some(0));
    assert_eq!(activations_after_an_order(), 1);
    for other in [Some(handover_outbox::mutants::Mutant::NoGate.name()), None] {
        plant(other);
        assert_eq!(activations_after_an_order(), 0, "{other:?}");
    }
}
