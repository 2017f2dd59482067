//! Deterministic simulation test: the whole application on the memory adapters, in one thread and virtual time. All
//! random decisions come from one seed, and every port injects faults. One seed is one reproducible run.
//!
//! [`play`] runs one seed, [`campaign`] many. `README.md` describes how to add an actor, a fault, an invariant or a
//! fault of the code.

#![allow(
    clippy::expect_used,
    reason = "values of a run are valid by construction; an invalid one is a bug of the simulator and must stop it"
)]

mod actors;
pub mod campaign;
mod coverage;
mod fault_kinds;
mod faults;
mod gateway_model;
mod machines;
mod observations;
mod oracle;
pub mod overlay;
mod ports;
mod profile;
mod random_numbers;
mod row_kinds;
mod run;
mod run_settings;
pub mod story;
mod webhook_observations;
mod world;

pub use coverage::Coverage;
pub use ports::defects::Defect;
pub use profile::Profile;
pub use run::{Outcome, Run};
pub use world::play;

/// A run makes hundreds of thousands of small allocations, for which mimalloc is 10 % faster than glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
