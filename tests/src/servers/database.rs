//! A database server, with one database per test.

#![allow(clippy::disallowed_methods, reason = "real servers run in real time")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tokio::sync::OnceCell;

use super::rabbitmq::Encryption;
use super::recycling::{Template, return_at_end};
use super::server_process::{EndWith, ServerProcess};
use super::{Durability, PASSWORD, certify, free_port, mariadb, postgres, server_folder};
use crate::process::BoxError;

/// Maximum time until a started server accepts statements.
const START_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    MariaDb,
    Postgres,
}

/// A private database server. The server ends when this value is dropped.
#[derive(Debug)]
pub struct DatabaseServer {
    kind: ServerKind,
    durability: Durability,
    encryption: Encryption,
    /// Whether MariaDB writes a binary log.
    has_binary_log: bool,
    port: u16,
    folder: PathBuf,
    watched: Mutex<Option<ServerProcess>>,
    /// Number of databases created.
    created: Mutex<u32>,
    /// Databases of finished tests. They are dropped when the next database is created.
    finished: Mutex<Vec<String>>,
    /// Databases of finished tests that the next test can use after their rows are restored.
    recyclable: Mutex<Vec<String>>,
    /// The rows that a database has again when it is recycled.
    template: OnceCell<Template>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DatabaseServer {
    /// Creates and starts a server, and waits until it accepts statements.
    pub async fn start(kind: ServerKind, durability: Durability) -> Result<Arc<DatabaseServer>, BoxError> {
        DatabaseServer::start_as(kind, durability, Encryption::None, false).await
    }

    /// Like [`DatabaseServer::start`], for a server that accepts TLS connections only, with a certificate for
    /// `localhost`.
    pub async fn start_encrypted(
        kind: ServerKind,
        durability: Durability,
    ) -> Result<Arc<DatabaseServer>, BoxError> {
        DatabaseServer::start_as(kind, durability, Encryption::Offered, false).await
    }

    /// Like [`DatabaseServer::start`], for a server that is not durable and, if it is MariaDB, writes a binary log with the
    /// changed rows. PostgreSQL always writes a WAL.
    pub async fn start_with_binary_log(kind: ServerKind) -> Result<Arc<DatabaseServer>, BoxError> {
        DatabaseServer::start_as(kind, Durability::None, Encryption::None, true).await
    }

    async fn start_as(
        kind: ServerKind,
        durability: Durability,
        encryption: Encryption,
        has_binary_log: bool,
    ) -> Result<Arc<DatabaseServer>, BoxError> {
        let folder = match kind {
            ServerKind::MariaDb => server_folder("mariadb")?,
            ServerKind::Postgres => server_folder("postgres")?,
        };
        let mut server = DatabaseServer {
            kind,
            durability,
            encryption,
            has_binary_log,
            port: free_port()?,
            folder: folder.clone(),
            watched: Mutex::default(),
            created: Mutex::default(),
            finished: Mutex::default(),
            recyclable: Mutex::default(),
            template: OnceCell::new(),
        };
        let created = match kind {
            ServerKind::MariaDb => mariadb::make(&folder),
            ServerKind::Postgres => postgres::make(&folder),
        };
        let created = created.and_then(|()| match (encryption, kind) {
            (Encryption::None, _) => Ok(()),
            (Encryption::Offered, ServerKind::MariaDb) => certify(&folder),
            (Encryption::Offered, ServerKind::Postgres) => postgres::encrypt(&folder),
        });
        if let Err(error) = created {
            std::fs::remove_dir_all(&folder)?;
            return Err(error);
        }
        // If another process has taken the port since `free_port`, the next attempt uses another port.
        for _ in 0..3 {
            match server.restart().await {
                Ok(()) => return Ok(Arc::new(server)),
                Err(_) => {
                    server.stop()?;
                    server.port = free_port()?;
                }
            }
        }
        server.restart().await?;
        Ok(Arc::new(server))
    }

    /// Starts the server again on the same port with its data, and waits until it accepts statements.
    pub async fn restart(&self) -> Result<(), BoxError> {
        let (command, end): (_, EndWith) = match self.kind {
            ServerKind::MariaDb => {
                let mut command =
                    mariadb::command(&self.folder, self.port, self.durability, self.encryption)?;
                if self.has_binary_log {
                    command.extend(mariadb::BINARY_LOG.map(str::to_owned));
                }
                (command, mariadb::END)
            }
            ServerKind::Postgres => {
                (postgres::command(&self.folder, self.port, self.durability, self.encryption)?, postgres::END)
            }
        };
        *lock(&self.watched) = Some(ServerProcess::start(&command, &self.folder, end)?);
        let begun = Instant::now();
        loop {
            let error = match self.execute("SELECT 1").await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let (runs, log) = match &*lock(&self.watched) {
                Some(watched) => (watched.is_running(), watched.log()),
                None => (false, String::new()),
            };
            if !runs || begun.elapsed() > START_WITHIN {
                return Err(format!("{:?} accepts no statements: {error}\n{log}", self.kind).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Sends SIGKILL. The data is kept for [`restart`](DatabaseServer::restart).
    pub fn kill(&self) -> Result<(), BoxError> {
        match lock(&self.watched).take() {
            Some(watched) => watched.kill(),
            None => Ok(()),
        }
    }

    /// Ends the server with SIGQUIT (PostgreSQL) or SIGKILL (MariaDB). The data is kept.
    pub fn stop(&self) -> Result<(), BoxError> {
        match lock(&self.watched).take() {
            Some(watched) => watched.stop(),
            None => Ok(()),
        }
    }

    /// Sends SIGSTOP: the kernel accepts connections, but the server does not respond.
    pub fn pause(&self) -> Result<(), BoxError> {
        lock(&self.watched).as_ref().map_or(Ok(()), ServerProcess::pause)
    }

    /// Sends SIGCONT.
    pub fn resume(&self) -> Result<(), BoxError> {
        lock(&self.watched).as_ref().map_or(Ok(()), ServerProcess::resume)
    }

    /// File with the certificate authority of a server that was started with TLS.
    pub fn authorities(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Folder with all files of the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn kind(&self) -> ServerKind {
        self.kind
    }

    /// Port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of a database through the given port: the server's own port or that of a proxy.
    pub fn url(&self, database: &str, port: u16) -> String {
        match self.kind {
            ServerKind::MariaDb => format!("mysql://handover:{PASSWORD}@127.0.0.1:{port}/{database}"),
            ServerKind::Postgres => format!("postgres://handover:{PASSWORD}@127.0.0.1:{port}/{database}"),
        }
    }

    /// Executes a statement as administrator.
    pub async fn execute(&self, sql: &str) -> Result<(), BoxError> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self.kind {
            ServerKind::MariaDb => {
                let options: MySqlConnectOptions = self.url("mysql", self.port).parse()?;
                let mut connection: MySqlConnection = options.disable_statement_logging().connect().await?;
                sqlx::raw_sql(sql).execute(&mut connection).await?;
                connection.close().await?;
            }
            ServerKind::Postgres => {
                let options: PgConnectOptions = self.url("postgres", self.port).parse()?;
                let mut connection: PgConnection = options.disable_statement_logging().connect().await?;
                sqlx::raw_sql(sql).execute(&mut connection).await?;
                connection.close().await?;
            }
        }
        Ok(())
    }

    /// Creates an empty database; on PostgreSQL a copy of `template`, if given. After its test, it is dropped when the
    /// next database is created.
    pub async fn database(self: &Arc<Self>, template: Option<&str>) -> Result<TestDatabase, BoxError> {
        let finished = std::mem::take(&mut *lock(&self.finished));
        for name in finished {
            self.execute(&match self.kind {
                ServerKind::MariaDb => format!("DROP DATABASE {name}"),
                ServerKind::Postgres => format!("DROP DATABASE {name} WITH (FORCE)"),
            })
            .await?;
        }
        let number = {
            let mut created = lock(&self.created);
            *created += 1;
            *created
        };
        let name = format!("test_{number}");
        self.execute(&match (self.kind, template) {
            (ServerKind::Postgres, Some(template)) => format!("CREATE DATABASE {name} TEMPLATE {template}"),
            (ServerKind::Postgres, None) | (ServerKind::MariaDb, _) => format!("CREATE DATABASE {name}"),
        })
        .await?;
        Ok(TestDatabase { name, server: self.clone(), is_recyclable: false })
    }

    /// Makes databases recyclable, with the rows of this database.
    pub async fn set_template(&self, name: &str) -> Result<(), BoxError> {
        let read = || Template::read(self.kind, name, self.url(name, self.port));
        self.template.get_or_try_init(read).await.map(drop)
    }

    /// A database of a finished test, with the rows and the next generated ids of the template; none if no such database
    /// is unused.
    pub async fn recycled(self: &Arc<Self>) -> Result<Option<TestDatabase>, BoxError> {
        let name = lock(&self.recyclable).pop();
        let (Some(name), Some(template)) = (name, self.template.get()) else { return Ok(None) };
        template.restore(&name, &self.url(&name, self.port)).await?;
        Ok(Some(TestDatabase { name, server: self.clone(), is_recyclable: true }))
    }

    /// Receives a database that no task uses any more.
    pub(super) fn receive(&self, name: String) {
        lock(&self.recyclable).push(name);
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        // End the server first: its shell removes the folder. After a kill there is no shell, so remove the folder here
        // as well.
        drop(lock(&self.watched).take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Database of one test.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: Arc<DatabaseServer>,
    is_recyclable: bool,
}

impl TestDatabase {
    /// Lets later tests use the database after this one: the test must not change tables, and must use the database only
    /// in tasks of a runtime that ends on the thread that drops this value.
    pub fn recyclable(self) -> TestDatabase {
        let mut database = self;
        database.is_recyclable = true;
        database
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn url(&self) -> String {
        self.server.url(&self.name, self.server.port)
    }

    /// URL through a proxy.
    pub fn url_through(&self, port: u16) -> String {
        self.server.url(&self.name, port)
    }

    /// URL with the host name of the server's certificate.
    pub fn url_by_name(&self) -> String {
        self.url().replace("@127.0.0.1:", "@localhost:")
    }

    pub fn server(&self) -> &Arc<DatabaseServer> {
        &self.server
    }

    /// Number of connections to this database that the server closed because they were idle in a transaction.
    pub fn closed_for_idling(&self) -> Result<usize, BoxError> {
        let log = std::fs::read_to_string(self.server.folder.join("log"))?;
        let (database, why) = match self.server.kind {
            ServerKind::MariaDb => {
                (format!(" to db: '{}' ", self.name), "(Got timeout reading communication packets)")
            }
            ServerKind::Postgres => (
                format!(" {} FATAL: ", self.name),
                "terminating connection due to idle-in-transaction timeout",
            ),
        };
        Ok(log.lines().filter(|line| line.contains(&database) && line.contains(why)).count())
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        // A failed test may have been interrupted anywhere.
        if self.is_recyclable && !std::thread::panicking() {
            return_at_end(&self.server, name);
        } else {
            lock(&self.server.finished).push(name);
        }
    }
}
