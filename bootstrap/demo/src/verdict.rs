//! Compares the promises with the database.
//!
//! **Invariant:** effects are counted in their own tables, never in the consume log, and no number is taken from the
//! statistics or metrics of the service.

mod effects;
mod event_histories;
mod events;
mod holds;
mod invoices;
mod ledger;
mod orders;
mod promise;
mod refunds;
#[cfg(test)]
mod tests;
mod webhooks;

pub(super) use promise::{ConsumerEvents, Evidence, Expectations, Promise};

pub(super) fn check_all(evidence: &Evidence<'_>) -> Vec<Promise> {
    vec![
        orders::responses(evidence),
        orders::acknowledged(evidence),
        orders::states(evidence),
        orders::closed_in_time(evidence),
        orders::one_lamp(evidence),
        orders::sold_once(evidence),
        events::created(evidence),
        event_histories::no_gaps(evidence),
        events::confirmed(evidence),
        events::settled(evidence),
        effects::exactly_once(evidence),
        effects::in_order(evidence),
        effects::credit(evidence),
        ledger::sums_to_zero(evidence),
        ledger::balances(evidence),
        holds::resolved(evidence),
        holds::match_orders(evidence),
        holds::coupons(evidence),
        ledger::earned(evidence),
        refunds::equal_captured(evidence),
        refunds::excess_captures(evidence),
        invoices::settled(evidence),
        events::duplicates(evidence),
        events::outage(evidence),
        events::dead_letters(evidence),
        webhooks::delivered(evidence),
        events::nothing_pending(evidence),
    ]
}
