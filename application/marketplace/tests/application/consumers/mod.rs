//! The consumers: each event once, in the order of its aggregate, or parked where a person sees it.

mod additions;
mod attempts;
mod carriers;
mod clock_steps;
mod crashes;
mod duplicates;
mod facts;
mod late;
mod locks;
mod order;
pub(crate) mod scripted;
mod shutdown;
mod standard;
mod strangers;
mod sweeps;
mod timeouts;
