//! One connection to a database, without a pool.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteSynchronous};

use super::error::BaselineError;
use super::event::{Appended, Envelope, Event, Order, Placed, WebhookDelivery};
use super::statements::{mysql, postgres, sqlite};

/// Number of prepared statements that a connection caches. A statement is prepared separately for each number of rows.
const STATEMENT_CACHE: usize = 1_024;
/// Timeout for SQLite's write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// A message in a queue of the database broker.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) id: i64,
    pub(crate) body: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    MySql,
    Postgres,
}

/// A connection to SQLite, PostgreSQL, MySQL or MariaDB.
#[derive(Debug)]
pub(crate) struct Connection(Driver);

/// The driver's own connection.
#[derive(Debug)]
pub(crate) enum Driver {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

macro_rules! on {
    ($connection:expr, $function:ident($($argument:expr),*)) => {
        match &mut $connection.0 {
            Driver::Sqlite(connection) => sqlite::$function(connection $(, $argument)*).await,
            Driver::Postgres(connection) => postgres::$function(connection $(, $argument)*).await,
            Driver::MySql(connection) => mysql::$function(connection $(, $argument)*).await,
        }
    };
}

impl Connection {
    /// Connects to SQLite, PostgreSQL, MySQL or MariaDB. With `ca_file`, a server must present a certificate signed by
    /// an authority in that file.
    pub(crate) async fn open(url: &str, ca_file: Option<&str>) -> Result<Connection, BaselineError> {
        let scheme = url.split(':').next().unwrap_or_default();
        match scheme {
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(url)?
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(BUSY_TIMEOUT)
                    .statement_cache_capacity(STATEMENT_CACHE)
                    .disable_statement_logging();
                Ok(Connection(Driver::Sqlite(options.connect().await?)))
            }
            "postgres" | "postgresql" => {
                let mut options = PgConnectOptions::from_str(url)?
                    .statement_cache_capacity(STATEMENT_CACHE)
                    .disable_statement_logging();
                if let Some(file) = ca_file {
                    options = options.ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(file);
                }
                let mut connection = Connection(Driver::Postgres(options.connect().await?));
                let level = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED";
                connection.execute(level).await?;
                Ok(connection)
            }
            "mysql" | "mariadb" => {
                let mut options = MySqlConnectOptions::from_str(&url.replacen("mariadb:", "mysql:", 1))?
                    .statement_cache_capacity(STATEMENT_CACHE)
                    .disable_statement_logging();
                if let Some(file) = ca_file {
                    options = options.ssl_mode(MySqlSslMode::VerifyIdentity).ssl_ca(file);
                }
                let mut connection = Connection(Driver::MySql(options.connect().await?));
                // With the default level, REPEATABLE READ, gap locks would make concurrent inserts wait for each other.
                connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
                Ok(connection)
            }
            other => Err(BaselineError::Unexpected(format!("unsupported database URL: {other}://"))),
        }
    }

    pub(crate) fn driver(&mut self) -> &mut Driver {
        &mut self.0
    }

    pub(crate) fn engine(&self) -> Engine {
        match self.0 {
            Driver::Sqlite(_) => Engine::Sqlite,
            Driver::Postgres(_) => Engine::Postgres,
            Driver::MySql(_) => Engine::MySql,
        }
    }

    /// Executes statements unprepared and returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<u64, BaselineError> {
        on!(self, raw(sql))
    }

    /// Executes a query and returns its only value.
    pub(crate) async fn number(&mut self, sql: &str) -> Result<i64, BaselineError> {
        on!(self, number(sql))
    }

    /// Executes a query and returns its first column.
    pub(crate) async fn texts(&mut self, sql: &str) -> Result<Vec<String>, BaselineError> {
        on!(self, texts(sql))
    }

    pub(crate) async fn begin(&mut self) -> Result<(), BaselineError> {
        on!(self, begin())
    }

    /// Begins a transaction that sees the database as it is now, and stays open.
    pub(crate) async fn hold(&mut self) -> Result<(), BaselineError> {
        let begin = match self.engine() {
            Engine::Sqlite => "BEGIN",
            Engine::MySql => {
                "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT"
            }
            Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        };
        self.execute(begin).await?;
        self.number("SELECT count(*) FROM outbox_events").await.map(drop)
    }

    pub(crate) async fn commit(&mut self) -> Result<(), BaselineError> {
        self.execute("COMMIT").await.map(drop)
    }

    /// Places an order in one transaction: reads and updates the product, inserts the order and its two events.
    pub(crate) async fn place(&mut self, order: &Order) -> Result<Placed, BaselineError> {
        on!(self, place(order, None))
    }

    /// As [`Connection::place`], with an idempotency key and the response that is stored with it.
    pub(crate) async fn place_once(&mut self, order: &Order, key: &str) -> Result<Placed, BaselineError> {
        on!(self, place(order, Some(key)))
    }

    /// Changes a product and appends an event of it, in one transaction. Returns the name and the duration of each statement.
    pub(crate) async fn append(
        &mut self,
        event: &Appended,
    ) -> Result<Vec<(&'static str, Duration)>, BaselineError> {
        on!(self, append(event))
    }

    /// Locks and returns the next pending events, at most `limit`.
    pub(crate) async fn claim(&mut self, limit: u32) -> Result<Vec<Event>, BaselineError> {
        on!(self, claim(limit))
    }

    /// Marks events as SENT; one statement changes at most 1,000 rows.
    pub(crate) async fn mark_sent(
        &mut self,
        events: &[Event],
        at: DateTime<Utc>,
    ) -> Result<(), BaselineError> {
        on!(self, mark_sent(events, at))
    }

    /// Inserts events into queues of the database broker, each with its time of expiry. One statement inserts at most
    /// 1,000 rows.
    pub(crate) async fn enqueue(
        &mut self,
        rows: &[(&str, Option<DateTime<Utc>>, &Event)],
    ) -> Result<(), BaselineError> {
        on!(self, enqueue(rows))
    }

    /// Inserts the consume-log records and the effects of messages, with two statements for at most 1,000 messages.
    /// Returns the event ids.
    pub(crate) async fn apply(
        &mut self,
        consumer: &str,
        bodies: &[String],
        at: DateTime<Utc>,
    ) -> Result<Vec<String>, BaselineError> {
        let envelopes =
            bodies.iter().map(|body| serde_json::from_str(body)).collect::<Result<Vec<Envelope>, _>>()?;
        on!(self, apply(consumer, &envelopes, at))?;
        Ok(envelopes.into_iter().map(|envelope| envelope.event_id).collect())
    }

    /// Takes at most `limit` messages from a queue of the database broker and applies them in one transaction; returns
    /// the event ids.
    pub(crate) async fn consume(
        &mut self,
        queue: &str,
        consumer: &str,
        limit: u32,
        at: DateTime<Utc>,
    ) -> Result<Vec<String>, BaselineError> {
        self.begin().await?;
        let queued = on!(self, dequeue(queue, limit))?;
        let (ids, bodies): (Vec<i64>, Vec<String>) =
            queued.into_iter().map(|queued| (queued.id, queued.body)).unzip();
        let mut events = Vec::new();
        if !ids.is_empty() {
            events = self.apply(consumer, &bodies, at).await?;
            on!(self, remove(&ids))?;
        }
        self.commit().await?;
        Ok(events)
    }

    /// The deliveries to send.
    pub(crate) async fn pending_deliveries(&mut self) -> Result<Vec<WebhookDelivery>, BaselineError> {
        on!(self, pending_deliveries())
    }

    /// Records in one transaction that a delivery was accepted.
    pub(crate) async fn record_delivery(
        &mut self,
        delivery: &WebhookDelivery,
        at: DateTime<Utc>,
    ) -> Result<(), BaselineError> {
        on!(self, record_delivery(delivery, at))
    }
}
