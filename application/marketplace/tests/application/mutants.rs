//! Tests of the planted-fault switch: `cargo test -p marketplace --features mutants`.

use std::collections::BTreeSet;

use marketplace::mutants::{Mutant, names, plant, struck};

use crate::support::World;

#[test]
fn each_has_a_name_of_its_own() {
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
fn only_the_planted_one_strikes_and_only_on_its_thread() {
    plant(Some(Mutant::EventOutsideTransaction.name()));
    let elsewhere = std::thread::spawn(activations_after_an_order).join();
    assert_eq!(elsewhere.ok(), Some(0));
    assert_eq!(activations_after_an_order(), 1);
    for other in [Some(handover_outbox::mutants::Mutant::NoGate.name()), None] {
        plant(other);
        assert_eq!(activations_after_an_order(), 0, "{other:?}");
    }
}
