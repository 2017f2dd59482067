//! The process that `doctor` checks.

use std::net::SocketAddr;

use async_trait::async_trait;
use handover_outbox::topology::Topology;
use handover_sql::SqlStore;

use super::report::Check;
use crate::config::Description;
use crate::settings::{BrokerChoice, DatabaseChoice};
use crate::stores::Parts;

/// The checks of an application, in addition to those of the toolkit.
#[async_trait]
pub trait ApplicationChecks: Send + Sync {
    /// Checks the application's tables. Their schema is current.
    async fn of_tables(&self, _store: &SqlStore) -> Vec<Check> {
        Vec::new()
    }

    /// Checks everything else that the application needs.
    async fn others(&self) -> Vec<Check> {
        Vec::new()
    }
}

/// The process that is checked.
pub struct Subject<'a> {
    /// Its configuration.
    pub description: Description,
    /// Its database.
    pub database: &'a DatabaseChoice,
    /// The parts of its schema.
    pub parts: Parts,
    /// Its broker.
    pub broker: &'a BrokerChoice,
    /// The queues that it declares.
    pub topology: Topology,
    /// The key on which the queues depend, if there is one.
    pub queues_depend_on: Option<&'static str>,
    /// The addresses on which it listens.
    pub listens: Vec<SocketAddr>,
    /// The checks of the application.
    pub application: &'a dyn ApplicationChecks,
}
