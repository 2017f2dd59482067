//! Assets, payments and refunds, and the jobs that keep them consistent.

mod archived_events;
mod asset_grants;
mod asset_payments;
mod auto_completion;
mod continuous_reconciliation;
mod declines;
mod erasure;
mod event_permutations;
mod findings;
mod gateway_money;
mod gateway_reports;
mod lock_reaper;
mod locks;
pub(crate) mod market;
mod mismatches;
mod recipients;
pub(crate) mod reconciliation;
mod reconciliation_races;
mod refund_dispatcher;
mod refunds;
mod refunds_of_same_money;
mod traces;
