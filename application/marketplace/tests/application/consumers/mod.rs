//! Consumers: each event takes effect once, in the order of its aggregate, or is parked as a dead letter.

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
