//! Access of a command to the outbox of a configured program.

use std::sync::Arc;

use async_trait::async_trait;
use handover_memory::MemoryBroker;
use handover_outbox::Outbox;
use handover_outbox::operations::Operator;
use handover_outbox::ports::{Broker, BrokerError, StoreError};
use handover_outbox::webhooks::Webhooks;
use handover_runtime::stores::AttachedDatabase;
use handover_runtime::terminal::Common;
use handover_runtime::{Failure, brokers};

use crate::access::{Access, Reach, UnrecordedReads, operator};
use crate::failure::CommandFailure;
use crate::program::{Program, WebhookProgram};
use crate::webhook_access::WebhookAccess;

/// An operator with direct access to the database of a program.
pub struct Session<P> {
    /// The configuration of the program.
    pub config: P,
    /// The database.
    pub database: AttachedDatabase,
    /// The outbox of the program.
    pub outbox: Outbox,
    /// The operator, for the audit log.
    pub operator: Operator,
    /// Says which reads are not in the audit log.
    pub unrecorded: UnrecordedReads,
}

impl<P: Program> Session<P> {
    /// Opens the configured database, if its schema is current.
    pub async fn open(common: &Common, reach: Reach) -> Result<Session<P>, Failure> {
        let config: P = common.load()?;
        let database = AttachedDatabase::readable(config.config().database, P::PARTS).await?;
        let broker: Arc<dyn Broker> = match reach {
            Reach::Broker => {
                brokers::for_command(config.config().broker, &database.store, &config.topology())?
            }
            // A placeholder: a command with `Reach::Store` never uses the broker.
            Reach::Store => Arc::new(MemoryBroker::new(Arc::clone(&database.clock))),
        };
        let outbox = config.outbox(&database, broker)?;
        let operator = operator(outbox.random().as_ref());
        let unrecorded = UnrecordedReads::of(&outbox.tx);
        Ok(Session { config, database, outbox, operator, unrecorded })
    }
}

#[async_trait]
impl<P: Program> Access for Session<P> {
    type Source = ();
    type Flags = Common;
    type Failure = Failure;

    async fn open(_: &(), flags: &Common, reach: Reach) -> Result<Session<P>, Failure> {
        Session::open(flags, reach).await
    }

    fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn operator(&self) -> &Operator {
        &self.operator
    }

    async fn close(&self) {
        self.database.store.close().await;
    }

    fn database_failed(&self, cause: StoreError) -> Failure {
        Failure::database(&self.database.choice)(cause)
    }

    fn broker_failed(&self, cause: BrokerError) -> Failure {
        cause.into()
    }

    fn missing(&self, what: String, see: &'static str) -> Failure {
        Failure::Missing { what, see, database: self.database.choice.clone() }
    }
}

impl<P: WebhookProgram> WebhookAccess for Session<P> {
    fn webhooks(&self) -> Result<Webhooks, Failure> {
        let webhooks = self.config.webhooks(&self.outbox)?;
        webhooks.ok_or_else(|| CommandFailure::NoWebhookKey {}.into())
    }
}

impl From<CommandFailure> for Failure {
    fn from(failure: CommandFailure) -> Failure {
        Failure::Application { failure: Box::new(failure) }
    }
}
