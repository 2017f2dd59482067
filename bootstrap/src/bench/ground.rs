//! The ground a bench stands on: a database and queues that were not there before, and are not there after.

use std::sync::Arc;

use handover_application::ports::{Broker, Store};
use handover_application::topology::Topology;
use handover_application::{App, Rules, Tasks, Transactor, TxPolicy, Wake, runtime};
use handover_bare::{BareQueue, Session};
use handover_rabbitmq::{RabbitBroker, RabbitSettings};
use handover_sql::{DatabaseBroker, ServerOptions, SqlStore, SqliteOptions};
use handover_system::{OsChance, SystemClock};
use tempfile::TempDir;

use super::measure::Plan;
use super::report::Settings;
use super::stop::{failed, refuse};
use super::tap::Tap;
use crate::Failure;
use crate::cli::BenchArgs;
use crate::progress::Progress;

pub(super) struct Ground {
    pub(super) database: String,
    pub(super) rabbit: Option<String>,
    pub(super) store: SqlStore,
    pub(super) wake: Wake,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) topology: Topology,
    pub(super) rules: Rules,
    _folder: Option<TempDir>,
}

const TABLES: [&str; 8] = ["products", "orders", "outbox_events", "event_consume_log", "shipments", "listings", "listing_changes", "broker_messages"];

impl Ground {
    pub(super) async fn take(arguments: &BenchArgs, _progress: &Progress) -> Result<Ground, Failure> {
        let (mut folder, wake) = (None, Wake::default());
        let clock = Arc::new(SystemClock);
        let (database, store) = match &arguments.common.database {
            Some(url) if url.starts_with("postgres") => (url.clone(), SqlStore::open_postgres(&ServerOptions::new(url.as_str()), clock, wake.clone()).map_err(|e| refuse(&e, "x"))?),
            Some(url) if url.starts_with("mysql") => (url.clone(), SqlStore::open_mysql(&ServerOptions::new(url.as_str()), clock, wake.clone()).map_err(|e| refuse(&e, "x"))?),
            _ => {
                let made = TempDir::new().map_err(|cause| Failure::System { what: "no folder", cause })?;
                let path = made.path().join("bench.db");
                folder = Some(made);
                let store = SqlStore::open_sqlite(&SqliteOptions::file(&path), clock, wake.clone()).await.map_err(|e| refuse(&e, "x"))?;
                (format!("sqlite://{}", path.display()), store)
            }
        };
        store.migrate().await.map_err(|e| refuse(&e, "x"))?;
        let rabbit = arguments.broker.clone().filter(|url| url.starts_with("amqp"));
        let broker: Arc<dyn Broker> = match &rabbit {
            Some(url) => Arc::new(RabbitBroker::new(RabbitSettings::parse(url).map_err(|e| refuse(&e, "x"))?)),
            None => Arc::new(DatabaseBroker::new(&store)),
        };
        let rules = Rules { pending_timeout: handover_application::topology::DEFAULT_TIMEOUT, max_retry_count: 3, on_failed: Default::default() };
        let topology = Topology::standard(rules.pending_timeout);
        let ground = Ground { database, rabbit, store, wake, broker, topology, rules, _folder: folder };
        let app = ground.app(&Tap::default(), None)?;
        runtime::prepare(&app).await.map_err(|e| refuse(&e, "x"))?;
        Ok(ground)
    }

    /// An application of its own, listened to.
    pub(super) fn app(&self, tap: &Tap, noted: Option<&'static str>) -> Result<App, Failure> {
        let store: Arc<dyn Store> = tap.store(Arc::new(self.store.clone()));
        let broker = tap.broker(Arc::clone(&self.broker), noted);
        let tx = Transactor {
            store,
            tasks: Tasks::default(),
            clock: Arc::new(SystemClock),
            chance: Arc::new(OsChance::seeded()?),
            policy: TxPolicy::default(),
        };
        Ok(App::new(tx, broker, self.rules.clone()))
    }

    pub(super) async fn session(&self) -> Result<Session, Failure> {
        Session::connect(&self.database).await.map_err(failed("the database"))
    }

    pub(super) async fn queue(&self) -> Result<Option<BareQueue>, Failure> {
        match &self.rabbit {
            Some(url) => Ok(Some(BareQueue::connect(url, None).await.map_err(failed("RabbitMQ"))?)),
            None => Ok(None),
        }
    }

    pub(super) async fn clear(&self) -> Result<(), Failure> {
        let mut session = self.session().await?;
        let sql = match self.database.split(':').next() {
            Some("sqlite") => TABLES.map(|t| format!("DELETE FROM {t}")).join("; "),
            Some("mysql") => TABLES.map(|t| format!("TRUNCATE {t}")).join("; "),
            _ => format!("TRUNCATE {}", TABLES.join(", ")),
        };
        session.execute(&sql).await.map_err(failed("emptying the tables"))?;
        if let Some(queue) = self.queue().await? {
            for spec in &self.topology.queues {
                queue.purge(&spec.name).await.map_err(failed("emptying a queue"))?;
            }
            queue.close().await.map_err(failed("RabbitMQ"))?;
        }
        Ok(())
    }

    pub(super) async fn analyze(&self) -> Result<(), Failure> {
        let mut session = self.session().await?;
        let sql = match self.database.split(':').next() {
            Some("sqlite") => return Ok(()),
            Some("mysql") => "ANALYZE TABLE outbox_events",
            _ => "ANALYZE outbox_events; ANALYZE products",
        };
        session.execute(sql).await.map_err(failed("analyze"))?;
        Ok(())
    }

    pub(super) async fn settings(&self, _plan: &Plan) -> Result<Settings, Failure> {
        Ok(Settings::default())
    }

    pub(super) async fn leave(self, _keep: bool) -> Result<(), Failure> {
        self.clear().await
    }
}
