//! Context of a command: actor, tenant, trace and request id.

use std::fmt;

use handover_events::{TenantId, Trace};
use marketplace_domain::UserId;

use crate::error::NotAllowed;
use handover_outbox::operations::Operator;
use handover_outbox::ports::EventMetadata;

/// Role of a signed-in user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Buys and sells products.
    User,
    /// Reads the rows of its own tenant and runs operator commands on them.
    Operator,
    /// Reads the rows of all tenants and runs operator commands on them.
    Platform,
    /// Reads unmasked payloads.
    Pii,
}

impl Role {
    pub const ALL: &'static [Role] = &[Role::User, Role::Operator, Role::Platform, Role::Pii];

    /// Name in tokens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Operator => "operator",
            Role::Platform => "platform",
            Role::Pii => "pii",
        }
    }

    /// Parses the name in tokens.
    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.iter().copied().find(|role| role.as_str() == name)
    }
}

/// The user or component that runs a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A signed-in user.
    User { id: UserId, roles: Vec<Role> },
    /// The payment gateway, authenticated by its callback signature.
    Gateway,
    /// A consumer or job of the service, by its name.
    System(&'static str),
    /// The operating system user who runs the command line. This actor has every role, because it can access the
    /// database directly.
    CommandLine(String),
}

impl fmt::Display for Actor {
    /// Name in the audit log: `user:9`, `command-line:root`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::User { id, .. } => write!(f, "user:{id}"),
            Actor::Gateway => f.write_str("gateway"),
            Actor::System(name) => write!(f, "system:{name}"),
            Actor::CommandLine(user) => write!(f, "command-line:{user}"),
        }
    }
}

/// Context of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandContext {
    pub actor: Actor,
    pub tenant: TenantId,
    pub trace: Trace,
    /// `X-Request-Id`; `None` if no request caused the command.
    pub request_id: Option<String>,
}

impl CommandContext {
    /// The signed-in user; `None` for other actors.
    pub fn user(&self) -> Option<UserId> {
        match &self.actor {
            Actor::User { id, .. } => Some(*id),
            Actor::Gateway | Actor::System(_) | Actor::CommandLine(_) => None,
        }
    }

    /// Returns the signed-in user, for use cases that require one.
    ///
    /// # Errors
    /// The actor is not a user.
    pub(crate) fn require_user(&self) -> Result<UserId, NotAllowed> {
        self.user().ok_or(NotAllowed { what: "a signed-in user" })
    }

    pub fn has(&self, role: Role) -> bool {
        match &self.actor {
            Actor::User { roles, .. } => roles.contains(&role),
            Actor::Gateway | Actor::System(_) => false,
            Actor::CommandLine(_) => true,
        }
    }

    /// Returns the actor as an operator of the outbox.
    ///
    /// # Errors
    /// The actor has neither the role `operator` nor `platform`.
    pub fn operator(&self) -> Result<Operator, NotAllowed> {
        if !self.has(Role::Operator) && !self.has(Role::Platform) {
            return Err(NotAllowed { what: "the role operator" });
        }
        Ok(Operator {
            name: self.actor.to_string(),
            tenant: self.tenant,
            sees_all_tenants: self.has(Role::Platform),
            sees_personal_data: self.has(Role::Pii),
            trace: self.trace.clone(),
        })
    }

    /// Drops the roles of operators: the caller acts as the user only.
    pub fn as_user(&mut self) {
        if let Actor::User { roles, .. } = &mut self.actor {
            roles.retain(|role| !matches!(role, Role::Operator | Role::Platform));
        }
    }

    /// Metadata for the outbox rows of the command.
    pub fn metadata(&self) -> EventMetadata {
        EventMetadata {
            trace_id: Some(self.trace.trace_id.clone()),
            request_id: self.request_id.clone(),
            user_id: self.user().map(UserId::get),
            traceparent: self.trace.traceparent.clone(),
        }
    }
}
