//! Assets, payments and refunds, and the jobs that keep them consistent.

mod any_order;
mod gateway;
mod gifts;
mod locks;
pub(crate) mod market;
mod paying;
mod reaping;
pub(crate) mod reconciling;
mod refunds;
mod repairing;
mod traces;
