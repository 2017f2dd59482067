//! Actors: clients, operators, the gateway and the environment. They draw random numbers of the run; actors that call
//! use cases record the responses in the journal.

pub(crate) mod archive;
pub(crate) mod asset_grants;
mod buying;
pub(crate) mod clients;
pub(crate) mod environment;
mod gateway;
pub(crate) mod invoices;
pub(crate) mod journal;
pub(crate) mod manual_rows;
pub(crate) mod operators;
pub(crate) mod refund_reports;
mod repeated_requests;
pub(crate) mod webhooks;

use handover_events::TenantId;
use handover_events::Trace;
use marketplace::{Actor, CommandContext, Role};
use marketplace_domain::UserId;

use self::journal::Journal;
use super::faults::Faults;
use super::gateway_model::GatewayModel;

/// State that the actors of a run share.
#[derive(Clone)]
pub(crate) struct ActorState {
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) gateway_model: GatewayModel,
}

/// The tenants of a run, which must be isolated from each other.
pub(crate) fn tenants() -> [TenantId; 2] {
    [TenantId::DEFAULT, TenantId::try_from(2).expect("a small positive number is a valid id")]
}

/// The buyers of each tenant. The same id is another user in another tenant.
pub(crate) fn buyers() -> impl Iterator<Item = UserId> {
    (100..105).map(user)
}

pub(crate) fn user(number: u64) -> UserId {
    let number = i64::try_from(number).expect("a small number");
    UserId::try_from(number).expect("a small positive number is a valid id")
}

fn context(faults: &Faults, tenant: TenantId, actor: Actor) -> CommandContext {
    let trace = Trace { trace_id: format!("sim-{:016x}", faults.random.below(u64::MAX)), traceparent: None };
    CommandContext { actor, tenant, trace, request_id: None }
}

/// Context of a user's command, with a new trace id.
pub(crate) fn by_user(faults: &Faults, tenant: TenantId, id: UserId) -> CommandContext {
    context(faults, tenant, Actor::User { id, roles: vec![Role::User] })
}

pub(crate) fn by_gateway(faults: &Faults, tenant: TenantId) -> CommandContext {
    context(faults, tenant, Actor::Gateway)
}

/// Context of a command of the operators of all tenants, for one tenant.
pub(crate) fn by_platform(faults: &Faults, tenant: TenantId) -> CommandContext {
    context(faults, tenant, Actor::User { id: user(901), roles: vec![Role::Platform] })
}

/// Context of an operator's command, limited to one tenant.
pub(crate) fn by_operator(faults: &Faults, tenant: TenantId) -> CommandContext {
    context(faults, tenant, Actor::User { id: user(900), roles: vec![Role::Operator] })
}
