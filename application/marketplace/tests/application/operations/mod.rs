//! Operator actions and queries: each action happens once, is audited once, and affects only rows of its tenant.

mod broken;
mod carrier;
mod crashes;
mod discards;
mod looks;
mod operators;
mod privacy;
mod redrives;
mod refusals;
mod releases;
mod replays;
mod stale_copies;
mod timelines;
