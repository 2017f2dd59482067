//! What the commands need to know about a program.

use std::net::SocketAddr;
use std::sync::Arc;

use handover_outbox::Outbox;
use handover_outbox::ports::Broker;
use handover_outbox::topology::Topology;
use handover_outbox::webhooks::Webhooks;
use handover_runtime::Failure;
use handover_runtime::config::{Configuration, Sources};
use handover_runtime::doctor::ApplicationChecks;
use handover_runtime::secrets::SecretKind;
use handover_runtime::settings::{BrokerChoice, DatabaseChoice, LogConfig, ToolkitConfig};
use handover_runtime::stores::{AttachedDatabase, Parts};

/// The sections of a configuration that the commands use.
#[derive(Debug, Clone, Copy)]
pub struct CommandConfig<'a> {
    /// `database.*`.
    pub database: &'a DatabaseChoice,
    /// `broker.*` and `rabbitmq.*`.
    pub broker: &'a BrokerChoice,
    /// `log.*`.
    pub log: &'a LogConfig,
}

impl<'a> From<&'a ToolkitConfig> for CommandConfig<'a> {
    fn from(config: &'a ToolkitConfig) -> CommandConfig<'a> {
        CommandConfig { database: &config.database, broker: &config.broker, log: &config.log }
    }
}

/// A program that uses the toolkit, by its configuration.
pub trait Program: Configuration + Send + Sync {
    /// The parts of its schema besides the tables of the toolkit.
    const PARTS: Parts = &[];

    /// The key on which its queues depend, if there is one.
    const QUEUES_DEPEND_ON: Option<&'static str> = None;

    /// The sections that the commands use.
    fn config(&self) -> CommandConfig<'_>;

    /// Its secrets that may be in files next to the database file: `backup` copies the files.
    fn secrets(&self) -> Vec<&'static SecretKind> {
        Vec::new()
    }

    /// The queues that its processes declare.
    fn topology(&self) -> Topology;

    /// The outbox with its event types and consumers, for a command on a database that a process may be serving.
    fn outbox(&self, database: &AttachedDatabase, broker: Arc<dyn Broker>) -> Result<Outbox, Failure>;

    /// The addresses on which its processes listen.
    fn listens(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Its own checks of `doctor`. `sources` are those of this configuration.
    fn checks<'a>(&'a self, _sources: &'a Sources) -> Box<dyn ApplicationChecks + 'a> {
        struct NoChecks;
        impl ApplicationChecks for NoChecks {}
        Box::new(NoChecks)
    }
}

/// A program with webhooks.
pub trait WebhookProgram: Program {
    /// The webhooks on the outbox of this program; `None` if it has no key for their secrets.
    fn webhooks(&self, outbox: &Outbox) -> Result<Option<Webhooks>, Failure>;
}
