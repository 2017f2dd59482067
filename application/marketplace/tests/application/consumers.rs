//! Consumers: each event takes effect once, in the order of its aggregate, or is parked as a dead letter.

mod attempts;
mod breaker;
mod broker_failures;
mod clock_steps;
mod crashes;
mod custom_events;
mod duplicates;
mod facts;
mod foreign_messages;
mod late_events;
mod locks;
mod order_gate;
pub(crate) mod scripted;
mod shutdown;
mod standard;
mod sweeps;
mod timeouts;
