//! The marketplace for the commands of the toolkit.

use std::net::SocketAddr;
use std::sync::Arc;

use handover_cli::{CommandConfig, Program, WebhookProgram};
use handover_outbox::Outbox;
use handover_outbox::ports::Broker;
use handover_outbox::topology::Topology;
use handover_outbox::webhooks::Webhooks;
use handover_runtime::Failure;
use handover_runtime::config::Sources;
use handover_runtime::doctor::ApplicationChecks;
use handover_runtime::secrets::SecretKind;
use handover_runtime::stores::{AttachedDatabase, Parts};
use handover_runtime::webhooks;
use marketplace::consumers;

use crate::adapters::{PARTS, application_for_command};
use crate::doctor::MarketChecks;
use crate::secrets::{GATEWAY, JWT};
use crate::settings::Config;

impl Program for Config {
    const PARTS: Parts = PARTS;

    const QUEUES_DEPEND_ON: Option<&'static str> = Some("order.timeout.pending-minutes");

    fn config(&self) -> CommandConfig<'_> {
        CommandConfig { database: &self.database, broker: &self.broker, log: &self.log }
    }

    fn secrets(&self) -> Vec<&'static SecretKind> {
        vec![&JWT, &GATEWAY, &webhooks::KEY]
    }

    fn topology(&self) -> Topology {
        consumers::topology(self.rules.pending_timeout)
    }

    fn outbox(&self, database: &AttachedDatabase, broker: Arc<dyn Broker>) -> Result<Outbox, Failure> {
        Ok(application_for_command(self, database, broker)?.outbox)
    }

    fn listens(&self) -> Vec<SocketAddr> {
        Config::listens(self)
    }

    fn checks<'a>(&'a self, sources: &'a Sources) -> Box<dyn ApplicationChecks + 'a> {
        Box::new(MarketChecks { config: self, sources })
    }
}

impl WebhookProgram for Config {
    fn webhooks(&self, outbox: &Outbox) -> Result<Option<Webhooks>, Failure> {
        webhooks::webhooks(outbox, consumers::webhook_offer(), &self.webhook, &self.database)
    }
}
