//! Who asks, for which tenant, in which trace: what every use case takes.

use std::fmt;

use handover_events::{TenantId, Trace};
use marketplace_domain::UserId;

use crate::idempotency::Ticket;
use crate::use_cases::UseCaseError;
use handover_outbox::operations::Operator;
use handover_outbox::ports::EventMetadata;

/// What a signed-in user may do beyond buying and selling (spec §1 "tenant").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Buys and sells.
    User,
    /// Sees and moves the rows of its own tenant.
    Operator,
    /// Sees and moves the rows of all tenants.
    Platform,
    /// Sees unmasked payloads.
    Pii,
}

impl Role {
    /// Every role.
    pub const ALL: &'static [Role] = &[Role::User, Role::Operator, Role::Platform, Role::Pii];

    /// Its name in tokens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Operator => "operator",
            Role::Platform => "platform",
            Role::Pii => "pii",
        }
    }

    /// The role of that name.
    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.iter().copied().find(|role| role.as_str() == name)
    }
}

/// Who acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A signed-in user.
    User {
        /// Who.
        id: UserId,
        /// With which roles.
        roles: Vec<Role>,
    },
    /// The payment gateway, by a signed callback.
    Gateway,
    /// The service itself: a consumer or a job, by its name.
    System(&'static str),
    /// Whoever may write to the database itself, by the name of the system's user: every role is theirs already.
    CommandLine(String),
}

impl fmt::Display for Actor {
    /// As the audit log names it: `user:9`, `command-line:root`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::User { id, .. } => write!(f, "user:{id}"),
            Actor::Gateway => f.write_str("gateway"),
            Actor::System(name) => write!(f, "system:{name}"),
            Actor::CommandLine(user) => write!(f, "command-line:{user}"),
        }
    }
}

/// The circumstances of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandContext {
    /// Who acts.
    pub actor: Actor,
    /// In which tenant.
    pub tenant: TenantId,
    /// In which trace.
    pub trace: Trace,
    /// The claim of its idempotency key, if it came under one.
    pub idempotency: Option<Ticket>,
}

impl CommandContext {
    /// The acting user, if it is one.
    pub fn user(&self) -> Option<UserId> {
        match &self.actor {
            Actor::User { id, .. } => Some(*id),
            Actor::Gateway | Actor::System(_) | Actor::CommandLine(_) => None,
        }
    }

    /// Whether the actor has the role.
    pub fn has(&self, role: Role) -> bool {
        match &self.actor {
            Actor::User { roles, .. } => roles.contains(&role),
            Actor::Gateway | Actor::System(_) => false,
            Actor::CommandLine(_) => true,
        }
    }

    /// The actor as an operator of the outbox.
    ///
    /// # Errors
    /// [`UseCaseError::NotAllowed`]: it is none.
    pub fn operator(&self) -> Result<Operator, UseCaseError> {
        if !self.has(Role::Operator) && !self.has(Role::Platform) {
            return Err(UseCaseError::NotAllowed { what: "the role operator" });
        }
        Ok(Operator {
            name: self.actor.to_string(),
            tenant: self.tenant,
            sees_all: self.has(Role::Platform),
            sees_people: self.has(Role::Pii),
            trace: self.trace.clone(),
        })
    }

    /// What goes into the outbox rows of the command.
    pub fn metadata(&self) -> EventMetadata {
        EventMetadata {
            trace_id: Some(self.trace.trace_id.clone()),
            request_id: None,
            user_id: self.user().map(UserId::get),
            traceparent: self.trace.traceparent.clone(),
        }
    }
}
