//! Operator actions and queries.

mod crashes;
mod dead_letter_timelines;
mod discards;
mod failing_consumer;
mod faulty_broker;
mod operators;
mod privacy;
mod queries;
mod redrives;
mod refusals;
mod releases;
mod replays;
mod retention;
mod stale_copies;
mod timelines;
