//! The simulator: the whole application on the memory adapters, in one thread and virtual time, with every choice drawn
//! from one seed, while every port misbehaves. One seed is one reproducible bad day.
//!
//! [`play`] plays one; [`campaign`] plays many. `README.md` says how to add an actor, a fault, an invariant, a mutant.

#![allow(
    clippy::expect_used,
    reason = "what a run is made of is legal by construction, and a simulator that is not is to stop"
)]

mod actors;
pub mod campaign;
mod coverage;
mod dice;
mod faults;
mod machines;
mod oracle;
mod ports;
mod profile;
mod seen;
mod setting;
pub mod story;
mod world;

pub use coverage::Coverage;
pub use profile::Profile;
pub use world::{Outcome, Run, play};
