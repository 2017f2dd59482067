//! Everybody who wants something of the application, or happens to it. An actor draws from the run's dice, acts through
//! the use cases, and writes into the journal what it was told.

pub(crate) mod bank;
mod buying;
pub(crate) mod clients;
mod gateway;
pub(crate) mod gifts;
pub(crate) mod journal;
pub(crate) mod operators;
mod repeats;
pub(crate) mod rows_by_hand;
pub(crate) mod weather;

use handover_events::TenantId;
use handover_events::Trace;
use marketplace::{Actor, CommandContext, Role};
use marketplace_domain::UserId;

use self::bank::Bank;
use self::journal::Journal;
use super::faults::Faults;

/// What all actors of a run have to do with.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) bank: Bank,
}

/// The marketplaces of a run. Nobody of the one sees anything of the other.
pub(crate) fn tenants() -> [TenantId; 2] {
    [TenantId::DEFAULT, TenantId::try_from(2).expect("a small positive number is an id")]
}

/// The buyers of both marketplaces: the same numbers are other people in the other.
pub(crate) fn buyers() -> impl Iterator<Item = UserId> {
    (100..105).map(user)
}

pub(crate) fn user(number: u64) -> UserId {
    let number = i64::try_from(number).expect("a small number");
    UserId::try_from(number).expect("a small positive number is an id")
}

fn context(faults: &Faults, tenant: TenantId, actor: Actor) -> CommandContext {
    let trace = Trace { trace_id: format!("sim-{:016x}", faults.dice.below(u64::MAX)), traceparent: None };
    CommandContext { actor, tenant, trace, idempotency: None }
}

/// A signed-in user's command, in a trace of its own.
pub(crate) fn by_user(faults: &Faults, tenant: TenantId, id: UserId) -> CommandContext {
    context(faults, tenant, Actor::User { id, roles: vec![Role::User] })
}

pub(crate) fn by_gateway(faults: &Faults, tenant: TenantId) -> CommandContext {
    context(faults, tenant, Actor::Gateway)
}

/// An operator's command, who sees its own tenant.
pub(crate) fn by_operator(faults: &Faults, tenant: TenantId) -> CommandContext {
    context(faults, tenant, Actor::User { id: user(900), roles: vec![Role::Operator] })
}
