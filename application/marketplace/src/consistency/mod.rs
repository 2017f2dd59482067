//! Whether what happened was announced, confirmed, consumed and took effect: business row, outbox row, confirm, consume
//! log, effect (spec §6 "Reconciliation"; 004 "OrderAssetConsistencyJob").
//!
//! **Invariant:** looking is harmless beside healthy traffic, as each stage is read before the one that follows from it;
//! mending is harmless however often and by however many it is done, as it is written under what was read.

mod effects;
mod expected;
mod holds;
mod missing;

pub(crate) use effects::{Effect, FactRow, Kept, effects_of};
pub(crate) use expected::{Announced, confirmed_body, expected};
pub(crate) use holds::told_hold;
pub(crate) use missing::{announce_missing, missing};
