//! Checks each order from its row to the effects of its events: business row, outbox row, publisher confirm, consume log,
//! effect (spec §6 "Reconciliation"; 004 "OrderAssetConsistencyJob").
//!
//! **Invariant:** a check reports no false finding while events are in flight, because each stage is read before the stage
//! that follows from it. A repair may run repeatedly and concurrently: it checks the current rows in the transaction that
//! it writes in.

mod effects;
mod expected;
mod holds;
mod missing;

pub(crate) use effects::{Effect, FactRow, OrderEffects, read_effects};
pub(crate) use expected::{ExpectedEvent, confirmed_body, expected};
pub(crate) use holds::reconstructed_hold;
pub(crate) use missing::{announce_missing, missing};
