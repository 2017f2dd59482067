//! What operators do and look at: each action happens once, is in the audit log once, and reaches nobody else's rows.

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
