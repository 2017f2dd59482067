//! The ground a bench stands on: tables and queues that were not there before, and are not there after.
//!
//! **Invariant:** what was there before the bench is never emptied, changed or dropped.

mod queues;
mod reach;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover_application::ports::{Broker, Store};
use handover_application::topology::Topology;
use handover_application::{App, Tasks, Transactor, TxPolicy, Wake, runtime};
use handover_bare::{BareQueue, Session};
use handover_memory::SeededChance;
use handover_rabbitmq::{RabbitBroker, RabbitSettings};
use handover_sql::DatabaseBroker;
use tempfile::TempDir;

use super::statements::Statements;
use super::stop::{failed, odd, refuse};
use super::tap::Tap;
use crate::Failure;
use crate::cli::BenchArgs;
use crate::config::{BrokerChoice, Config, DatabaseChoice, Written};
use crate::wiring::Database;

use queues::Queues;
use reach::{passing_folder, queue, refuse_used, session};

/// How long what a measurement left running may take to end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The ground.
pub(super) struct Ground {
    pub(super) config: Config,
    pub(super) wake: Wake,
    pub(super) topology: Topology,
    pub(super) statements: Statements,
    database: Database,
    broker: Arc<dyn Broker>,
    version: String,
    seed: u64,
    begun: AtomicU64,
    running: Mutex<Vec<Tasks>>,
    left: Left,
}

impl Ground {
    /// Takes an empty database and free queues, and makes everything that the service needs there.
    pub(super) async fn take(arguments: &BenchArgs, statements: Statements) -> Result<Ground, Failure> {
        let sources = arguments.sources();
        let mut config = Config::load(&sources)?;
        let mut written = Written::of(&sources)?;
        let folder = match &config.database {
            DatabaseChoice::File(path) => {
                let folder = passing_folder(path, written.database_is_default)?;
                let file = folder.path().join("bench.db");
                written.database = format!("sqlite://{}", file.display());
                config.database = DatabaseChoice::File(file);
                Some(folder)
            }
            DatabaseChoice::Server(_) => None,
        };
        let topology = Topology::standard(config.rules.pending_timeout);
        if folder.is_none() {
            refuse_used(&written).await?;
        }
        let queues = match &config.broker {
            BrokerChoice::Rabbit(_) => Some(Queues::free(&queue(&written).await?, &topology).await?),
            BrokerChoice::Database => None,
            BrokerChoice::Memory => {
                let remedy = "name another broker: --broker database: or --broker amqp://...";
                return Err(refuse(
                    &"broker.url = \"memory:\" carries nothing that could be measured",
                    remedy,
                ));
            }
        };
        // From here on there is something to clean up.
        let left = Left { written, queues, folder };
        match Ground::make(config, statements, left, arguments.seed).await {
            Ok(ground) => Ok(ground),
            Err((failure, left)) => {
                left.clean(false).await?;
                Err(failure)
            }
        }
    }

    async fn make(
        config: Config,
        statements: Statements,
        left: Left,
        seed: u64,
    ) -> Result<Ground, (Failure, Left)> {
        let wake = Wake::default();
        let opened = async {
            Database::migrate(&config.database).await?;
            Database::open(&config.database, &wake).await
        };
        let database = match opened.await {
            Ok(database) => database,
            Err(failure) => return Err((failure, left)),
        };
        let (broker, version) = broker(&config, &database).await;
        let ground = Ground {
            topology: Topology::standard(config.rules.pending_timeout),
            config,
            wake,
            statements,
            database,
            broker,
            version,
            seed,
            begun: AtomicU64::new(0),
            running: Mutex::default(),
            left,
        };
        let app = ground.app(&Tap::default(), None);
        match runtime::prepare(&app).await {
            Ok(()) => Ok(ground),
            Err(error) => {
                drop(app);
                Err((odd(error), ground.close().await))
            }
        }
    }

    /// An application of its own, listened to; `noted` is the queue whose deliveries are noted one by one.
    pub(super) fn app(&self, tap: &Tap, noted: Option<&'static str>) -> App {
        let store: Arc<dyn Store> = tap.store(Arc::new(self.database.store().clone()));
        let broker = tap.broker(Arc::clone(&self.broker), noted);
        let tasks = Tasks::default();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(tasks.clone());
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let tx = Transactor {
            store,
            tasks,
            clock: Arc::clone(self.database.clock()),
            chance: Arc::new(SeededChance::new(self.seed.wrapping_add(number))),
            policy: TxPolicy::default(),
        };
        App::new(tx, broker, self.config.rules.clone())
    }

    /// Wakes and clocks of the application, as in a process that serves.
    pub(super) fn keep_in_touch(&self, app: &App) {
        self.database.keep_in_touch(&app.tx.tasks);
    }

    /// A plain connection to the database.
    pub(super) async fn session(&self) -> Result<Session, Failure> {
        session(&self.left.written).await
    }

    /// A plain connection to RabbitMQ, where it is the broker.
    pub(super) async fn queue(&self) -> Result<Option<BareQueue>, Failure> {
        match self.left.queues {
            Some(_) => Ok(Some(queue(&self.left.written).await?)),
            None => Ok(None),
        }
    }

    /// How many connections the service has for writing.
    pub(super) fn connections(&self) -> u32 {
        match self.config.database {
            DatabaseChoice::File(_) => 1,
            DatabaseChoice::Server(_) => self.left.written.connections,
        }
    }

    /// Empties the tables and queues that measurements fill.
    pub(super) async fn clear(&self) -> Result<(), Failure> {
        let emptying = self.session().await?.empty_tables().await;
        emptying.map_err(failed("the tables cannot be emptied"))?;
        self.clear_queues().await
    }

    /// Empties the queues.
    pub(super) async fn clear_queues(&self) -> Result<(), Failure> {
        if self.left.queues.is_none() {
            let emptying = self.session().await?.empty_messages().await;
            emptying.map_err(failed("the queues cannot be emptied"))?;
        }
        if let Some(queue) = self.queue().await? {
            for spec in &self.topology.queues {
                queue.purge(&spec.name).await.map_err(failed("a queue cannot be emptied"))?;
            }
            queue.close().await.map_err(failed("RabbitMQ"))?;
        }
        Ok(())
    }

    /// Lets the database look at what was filled in.
    pub(super) async fn settle(&self) -> Result<(), Failure> {
        let settling = self.session().await?.settle_tables().await;
        settling.map_err(failed("the tables cannot be analysed"))
    }

    /// Lists products with the ids from 1 to `count`.
    pub(super) async fn products(&self, count: u32) -> Result<(), Failure> {
        let listing = self.session().await?.list_products(count).await;
        listing.map_err(failed("no products can be listed"))
    }

    /// What stands beside the figures: database and broker, and how durable they are.
    pub(super) async fn describe(&self) -> Result<(String, String, String), Failure> {
        let described = self.session().await?.describe().await;
        let (database, durability) = described.map_err(failed("the database does not say what it is"))?;
        Ok((database, durability, self.version.clone()))
    }

    /// Ends everything and drops what was made, unless it is to be kept; then tells where it is.
    pub(super) async fn leave(self, keep: bool) -> Result<Option<String>, Failure> {
        self.close().await.clean(keep).await
    }

    async fn close(self) -> Left {
        let running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for tasks in running {
            tasks.kill();
            // What does not end holds nothing that would keep the rest from being dropped.
            let _ = tokio::time::timeout(END_WITHIN, tasks.ended()).await;
        }
        let Ground { database, broker, left, .. } = self;
        // RabbitMQ's adapter declares again what disappears, as long as there is one.
        drop(broker);
        database.close().await;
        left
    }
}

/// What was made, and is left when nothing runs any more.
struct Left {
    written: Written,
    queues: Option<Queues>,
    folder: Option<TempDir>,
}

impl Left {
    async fn clean(self, keep: bool) -> Result<Option<String>, Failure> {
        if keep {
            let place = match self.folder {
                Some(folder) => folder.keep().display().to_string(),
                None => "the database".to_owned(),
            };
            return Ok(Some(place));
        }
        if self.folder.is_none() {
            let dropping = session(&self.written).await?.drop_tables().await;
            dropping.map_err(failed("the tables of the bench are still there"))?;
        }
        if let Some(queues) = self.queues {
            queues.leave(queue(&self.written).await?).await?;
        }
        if let Some(folder) = self.folder {
            folder.close().map_err(|cause| Failure::System { what: "the bench's folder stays", cause })?;
        }
        Ok(None)
    }
}

async fn broker(config: &Config, database: &Database) -> (Arc<dyn Broker>, String) {
    match &config.broker {
        BrokerChoice::Rabbit(settings) => {
            let settings: &RabbitSettings = settings;
            let broker = RabbitBroker::new(settings.clone());
            let version = broker.version().await.unwrap_or_default();
            let queues = settings.queue_type.as_str();
            (Arc::new(broker), format!("RabbitMQ {version}, {queues} queues"))
        }
        BrokerChoice::Database | BrokerChoice::Memory => {
            (Arc::new(DatabaseBroker::new(database.store())), "database:".to_owned())
        }
    }
}
