//! The switch of the planted faults: `cargo test -p handover-application --features mutants`.

use std::collections::BTreeSet;

use handover_application::mutants::{Mutant, plant, struck};

use crate::support::World;

#[test]
fn each_has_a_name_of_its_own_by_which_it_is_found() {
    let names: BTreeSet<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
    assert_eq!(names.len(), Mutant::ALL.len());
    for mutant in Mutant::ALL {
        assert_eq!(mutant.name().parse(), Ok(*mutant));
        let variant = mutant.name().replace('-', "");
        assert_eq!(variant, format!("{mutant:?}").to_lowercase());
    }
    assert!("no-such-mutant".parse::<Mutant>().is_err());
}

/// An order is placed on this thread; tells how often the planted fault struck on it so far.
fn strikes_after_an_order() -> u64 {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
        World::new().await.process().ordered().await;
    });
    struck()
}

#[test]
fn only_the_planted_one_strikes_and_only_on_its_thread() {
    plant(Some(Mutant::EventOutsideTransaction));
    let elsewhere = std::thread::spawn(strikes_after_an_order).join();
    assert_eq!(elsewhere.ok(), Some(0));
    assert_eq!(strikes_after_an_order(), 1);
    for other in [Some(Mutant::NoGate), None] {
        plant(other);
        assert_eq!(strikes_after_an_order(), 0, "{other:?}");
    }
}
