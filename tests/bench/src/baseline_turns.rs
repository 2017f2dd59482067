//! The turns of the baseline, one module per mode, and how its events reach their queues.

mod chain;
mod consume;
mod drain;
mod latency;
mod orders;
mod routes;
mod webhooks;

pub(crate) use chain::chain;
pub(crate) use consume::consume;
pub(crate) use drain::drain;
pub(crate) use latency::LatencyRun;
pub(crate) use orders::orders;
pub(crate) use webhooks::webhooks;
