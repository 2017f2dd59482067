//! A database server, and a database in it for each test.

#![allow(clippy::disallowed_methods, reason = "real servers run on real time")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use super::rabbitmq::Encryption;
use super::watched::{EndWith, Watched};
use super::{Durability, PASSWORD, certify, free_port, mariadb, postgres, server_folder};
use crate::process::Fault;

/// How long a server may take until it answers.
const START_WITHIN: Duration = Duration::from_secs(60);

/// What kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// MariaDB.
    MariaDb,
    /// PostgreSQL.
    Postgres,
}

/// A server of a test's own. Dropping it ends it.
#[derive(Debug)]
pub struct DatabaseServer {
    kind: ServerKind,
    durability: Durability,
    encryption: Encryption,
    port: u16,
    folder: PathBuf,
    watched: Mutex<Option<Watched>>,
    /// How many databases were made.
    made: Mutex<u32>,
    /// Databases that nobody uses any more; the next that is made drops them.
    finished: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DatabaseServer {
    /// Makes and starts a server, and waits until it answers.
    pub async fn start(kind: ServerKind, durability: Durability) -> Result<Arc<DatabaseServer>, Fault> {
        DatabaseServer::start_as(kind, durability, Encryption::None).await
    }

    /// The same, for a server that takes encrypted connections only, with a certificate for `localhost`.
    pub async fn start_encrypted(
        kind: ServerKind,
        durability: Durability,
    ) -> Result<Arc<DatabaseServer>, Fault> {
        DatabaseServer::start_as(kind, durability, Encryption::Offered).await
    }

    async fn start_as(
        kind: ServerKind,
        durability: Durability,
        encryption: Encryption,
    ) -> Result<Arc<DatabaseServer>, Fault> {
        let folder = match kind {
            ServerKind::MariaDb => server_folder("mariadb")?,
            ServerKind::Postgres => server_folder("postgres")?,
        };
        let mut server = DatabaseServer {
            kind,
            durability,
            encryption,
            port: free_port()?,
            folder: folder.clone(),
            watched: Mutex::default(),
            made: Mutex::default(),
            finished: Mutex::default(),
        };
        let made = match kind {
            ServerKind::MariaDb => mariadb::make(&folder),
            ServerKind::Postgres => postgres::make(&folder),
        };
        let made = made.and_then(|()| match (encryption, kind) {
            (Encryption::None, _) => Ok(()),
            (Encryption::Offered, ServerKind::MariaDb) => certify(&folder),
            (Encryption::Offered, ServerKind::Postgres) => postgres::encrypt(&folder),
        });
        if let Err(error) = made {
            std::fs::remove_dir_all(&folder)?;
            return Err(error);
        }
        // Another process may have taken the port since.
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

    /// Starts it again on the same port with what it has kept, and waits until it answers.
    pub async fn restart(&self) -> Result<(), Fault> {
        let (command, end): (_, EndWith) = match self.kind {
            ServerKind::MariaDb => {
                (mariadb::command(&self.folder, self.port, self.durability, self.encryption)?, mariadb::END)
            }
            ServerKind::Postgres => {
                (postgres::command(&self.folder, self.port, self.durability, self.encryption)?, postgres::END)
            }
        };
        *lock(&self.watched) = Some(Watched::start(&command, &self.folder, end)?);
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
                return Err(format!("{:?} does not answer: {error}\n{log}", self.kind).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `kill -9`; what it has kept stays for [`restart`](DatabaseServer::restart).
    pub fn kill(&self) -> Result<(), Fault> {
        match lock(&self.watched).take() {
            Some(watched) => watched.kill(),
            None => Ok(()),
        }
    }

    /// Ends it in order.
    pub fn stop(&self) -> Result<(), Fault> {
        match lock(&self.watched).take() {
            Some(watched) => watched.stop(),
            None => Ok(()),
        }
    }

    /// SIGSTOP: it takes connections and answers nothing.
    pub fn pause(&self) -> Result<(), Fault> {
        lock(&self.watched).as_ref().map_or(Ok(()), Watched::pause)
    }

    /// SIGCONT.
    pub fn go_on(&self) -> Result<(), Fault> {
        lock(&self.watched).as_ref().map_or(Ok(()), Watched::go_on)
    }

    /// The file of who signed the certificate of a server that was started encrypted.
    pub fn authorities(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Where it keeps everything.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What kind of server it is.
    pub fn kind(&self) -> ServerKind {
        self.kind
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of one of its databases, by this port: its own, or that of a proxy before it.
    pub fn url(&self, database: &str, port: u16) -> String {
        match self.kind {
            ServerKind::MariaDb => format!("mysql://handover:{PASSWORD}@127.0.0.1:{port}/{database}"),
            ServerKind::Postgres => format!("postgres://handover:{PASSWORD}@127.0.0.1:{port}/{database}"),
        }
    }

    /// Runs a statement as an administrator.
    pub async fn execute(&self, sql: &str) -> Result<(), Fault> {
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

    /// An empty database that goes when it is dropped; on PostgreSQL a copy of `template`, if there is one.
    pub async fn database(self: &Arc<Self>, template: Option<&str>) -> Result<TestDatabase, Fault> {
        let finished = std::mem::take(&mut *lock(&self.finished));
        for name in finished {
            self.execute(&match self.kind {
                ServerKind::MariaDb => format!("DROP DATABASE {name}"),
                ServerKind::Postgres => format!("DROP DATABASE {name} WITH (FORCE)"),
            })
            .await?;
        }
        let number = {
            let mut made = lock(&self.made);
            *made += 1;
            *made
        };
        let name = format!("test_{number}");
        self.execute(&match (self.kind, template) {
            (ServerKind::Postgres, Some(template)) => format!("CREATE DATABASE {name} TEMPLATE {template}"),
            (ServerKind::Postgres, None) | (ServerKind::MariaDb, _) => format!("CREATE DATABASE {name}"),
        })
        .await?;
        Ok(TestDatabase { name, server: self.clone() })
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        // First the server, whose shell removes the folder too; but one that was killed has no shell any more.
        drop(lock(&self.watched).take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A database of one test.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: Arc<DatabaseServer>,
}

impl TestDatabase {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.server.url(&self.name, self.server.port)
    }

    /// Its URL by the name that the certificate of its server is for.
    pub fn url_by_name(&self) -> String {
        self.url().replace("@127.0.0.1:", "@localhost:")
    }

    /// The server it is in.
    pub fn server(&self) -> &Arc<DatabaseServer> {
        &self.server
    }

    /// How many of its connections the server ended because they did nothing within a transaction.
    pub fn ended_for_idling(&self) -> Result<usize, Fault> {
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
        lock(&self.server.finished).push(std::mem::take(&mut self.name));
    }
}
