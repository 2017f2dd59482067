//! Servers for tests of the program on a pair of database and broker. Each test has its own database and vhost, either
//! on servers that all tests of a binary share or on private servers that the test may kill.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use tempfile::TempDir;

use crate::canary::{Canaries, none};
use crate::process::{BoxError, Launch};
use crate::servers::Durability;
use crate::servers::database::{DatabaseServer, ServerKind, TestDatabase};
use crate::servers::rabbitmq::{Encryption, RabbitServer, TestVhost};
use crate::snapshot::DatabaseSnapshot;
use crate::{rabbit_rigs, server_rigs};

const JWT_SECRET: &str = "secret that signs the tokens of this deployment";
const GATEWAY_SECRET: &str = "whsec_dGhlIGdhdGV3YXkgc2lnbnMgY2FsbGJhY2tzIHdpdGggdGhpcw==";

/// A pair of database and broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// SQLite for both.
    SqliteAlone,
    /// MariaDB as database and broker.
    MariaDbAlone,
    /// PostgreSQL as database and broker.
    PostgresAlone,
    /// MariaDB and RabbitMQ.
    MariaDbRabbitMq,
    /// PostgreSQL and RabbitMQ.
    PostgresRabbitMq,
}

impl Pair {
    /// The database server, if there is one.
    pub const fn database_server(self) -> Option<ServerKind> {
        match self {
            Pair::SqliteAlone => None,
            Pair::MariaDbAlone | Pair::MariaDbRabbitMq => Some(ServerKind::MariaDb),
            Pair::PostgresAlone | Pair::PostgresRabbitMq => Some(ServerKind::Postgres),
        }
    }

    /// Whether the broker is RabbitMQ.
    pub const fn is_on_rabbitmq(self) -> bool {
        match self {
            Pair::SqliteAlone | Pair::MariaDbAlone | Pair::PostgresAlone => false,
            Pair::MariaDbRabbitMq | Pair::PostgresRabbitMq => true,
        }
    }
}

/// A migrated database and, with RabbitMQ, a vhost. Any number of processes can use them at the same time; on SQLite
/// only one. Dropping the deployment searches the files of the servers for leaked canaries.
#[derive(Debug)]
pub struct Deployment {
    pair: Pair,
    since: SystemTime,
    folder: TempDir,
    database: Option<TestDatabase>,
    vhost: Option<Arc<TestVhost>>,
    launches: AtomicU32,
}

impl Deployment {
    /// Uses the servers that all tests of this binary share.
    pub async fn start(pair: Pair) -> Deployment {
        let database = match pair.database_server() {
            Some(kind) => Some(server_rigs::shared(kind).await.database(None).await.unwrap()),
            None => None,
        };
        let vhost = match pair.is_on_rabbitmq() {
            true => Some(Arc::new(rabbit_rigs::shared().await.vhost().await.unwrap())),
            false => None,
        };
        Deployment::on(pair, database, vhost)
    }

    /// Uses private, durable servers, which the test may kill, stop and resume.
    pub async fn with_own_servers(pair: Pair) -> Deployment {
        let database = async {
            Ok::<_, BoxError>(match pair.database_server() {
                Some(kind) => {
                    Some(DatabaseServer::start(kind, Durability::Full).await?.database(None).await?)
                }
                None => None,
            })
        };
        let vhost = async {
            Ok(match pair.is_on_rabbitmq() {
                true => Some(Arc::new(RabbitServer::start(Encryption::None).await?.vhost().await?)),
                false => None,
            })
        };
        let (database, vhost) = tokio::try_join!(database, vhost).unwrap();
        Deployment::on(pair, database, vhost)
    }

    /// Migrates an empty database and uses it with a vhost.
    pub fn on(pair: Pair, database: Option<TestDatabase>, vhost: Option<Arc<TestVhost>>) -> Deployment {
        let deployment = Deployment::unmigrated(pair, database, vhost);
        deployment.launch().migrate();
        deployment
    }

    /// Uses an empty database with a vhost.
    pub fn unmigrated(
        pair: Pair,
        database: Option<TestDatabase>,
        vhost: Option<Arc<TestVhost>>,
    ) -> Deployment {
        let folder = tempfile::tempdir().unwrap();
        let since = SystemTime::now();
        let launches = AtomicU32::new(0);
        Deployment { pair, since, folder, database, vhost, launches }
    }

    /// Launch options of one more process, with its own folder and log. On SQLite all processes share one folder.
    pub fn launch(&self) -> Launch {
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        let folder = match self.database {
            Some(_) => self.folder.path().join(format!("process-{number}")),
            None => self.folder.path().to_owned(),
        };
        std::fs::create_dir_all(&folder).unwrap();
        let mut launch = Launch::in_folder(&folder)
            .set("HANDOVER_AUTH__JWT_SECRET", JWT_SECRET)
            .set("HANDOVER_GATEWAY__SECRET", GATEWAY_SECRET)
            // Tests that change rows by SQL decide when their orders are compared: on a slow machine a job would repair first.
            .set("HANDOVER_CONSISTENCY__RECENT_INTERVAL", "24h");
        if let Some(database) = &self.database {
            launch = launch.set("HANDOVER_DATABASE__URL", &database.url());
        }
        let broker = self.vhost.as_ref().map_or_else(|| "database:".to_owned(), |vhost| vhost.url());
        launch.set("HANDOVER_BROKER__URL", &broker)
    }

    /// Launch options of one more process that connects to the database server and to RabbitMQ through the given ports
    /// of proxies.
    pub fn launch_through(&self, database_port: Option<u16>, broker_port: Option<u16>) -> Launch {
        let mut launch = self.launch();
        if let (Some(port), Some(database)) = (database_port, &self.database) {
            launch = launch.set("HANDOVER_DATABASE__URL", &database.server().url(database.name(), port));
        }
        if let (Some(port), Some(vhost)) = (broker_port, &self.vhost) {
            launch = launch.set("HANDOVER_BROKER__URL", &vhost.url_through(port));
        }
        launch
    }

    /// Direct access to the database and, on RabbitMQ, to the queues.
    pub async fn snapshot(&self) -> DatabaseSnapshot {
        let snapshot = match &self.database {
            Some(database) => DatabaseSnapshot::on(&database.url()),
            None => DatabaseSnapshot::open(&self.file()).await,
        };
        match &self.vhost {
            Some(vhost) => snapshot.with_vhost(Arc::clone(vhost)),
            None => snapshot,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("handover.db")
    }

    pub fn pair(&self) -> Pair {
        self.pair
    }

    /// The database on a server. Panics on SQLite.
    #[track_caller]
    pub fn database(&self) -> &TestDatabase {
        self.database.as_ref().expect("a database server")
    }

    /// The vhost. Panics without RabbitMQ.
    #[track_caller]
    pub fn vhost(&self) -> &Arc<TestVhost> {
        self.vhost.as_ref().expect("RabbitMQ")
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        // A test that has failed reports that failure only.
        if std::thread::panicking() {
            return;
        }
        let mut canaries = Canaries::standard();
        canaries.secret("the secret that signs tokens", JWT_SECRET);
        canaries.secret("the gateway's secret", GATEWAY_SECRET);
        let database = self.database.as_ref().map(|database| database.server().folder().to_owned());
        let broker = self.vhost.as_ref().map(|vhost| vhost.server().folder().to_owned());
        let folders = database.into_iter().chain(broker);
        none(&folders.flat_map(|folder| canaries.in_server(&folder, self.since)).collect::<Vec<_>>());
    }
}

/// Generates each listed test for the named pairs of database and broker, in one module per pair. A pair may have an
/// attribute, such as `#[ignore = "long: why"]`, which applies to the tests of the pair.
#[macro_export]
macro_rules! on_pairs {
    ($tests:tt: $($(#$attribute:tt)? $name:ident $pair:ident),* $(,)?) => {
        $(mod $name {
            $crate::on_pairs!(@stamp $tests [$(#$attribute)?] $pair);
        })*
    };
    (@stamp [$($test:ident),* $(,)?] $attribute:tt $pair:ident) => {
        $($crate::on_pairs!(@test $test $attribute $pair);)*
    };
    (@test $test:ident [$($attribute:tt)*] $pair:ident) => {
        $($attribute)*
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            super::$test($crate::deployment::Pair::$pair).await;
        }
    };
}

/// Generates each listed test for the pairs with RabbitMQ.
#[macro_export]
macro_rules! on_rabbitmq {
    ($($test:ident),* $(,)?) => {
        $crate::on_pairs!([$($test),*]: mariadb_and_rabbitmq MariaDbRabbitMq,
            postgres_and_rabbitmq PostgresRabbitMq);
    };
}
