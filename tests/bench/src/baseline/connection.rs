//! One connection to a database, without a pool.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteSynchronous};

use super::error::BareError;
use super::event::{Arrived, Event, Order, Placed};
use super::statements::{mysql, postgres, sqlite};

/// Statements that a connection keeps prepared: groups come in any length up to the prefetch.
const PREPARED: usize = 1_024;
/// How long SQLite waits for its one writer.
const BUSY: std::time::Duration = std::time::Duration::from_secs(30);

/// A message in a queue of the database broker.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) id: i64,
    pub(crate) body: String,
}

/// What is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    MySql,
    Postgres,
}

/// One connection.
#[derive(Debug)]
pub struct Session(Kind);

#[derive(Debug)]
enum Kind {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
}

macro_rules! on {
    ($session:expr, $function:ident($($argument:expr),*)) => {
        match &mut $session.0 {
            Kind::Sqlite(connection) => sqlite::$function(connection $(, $argument)*).await,
            Kind::Postgres(connection) => postgres::$function(connection $(, $argument)*).await,
            Kind::MySql(connection) => mysql::$function(connection $(, $argument)*).await,
        }
    };
}

impl Session {
    /// Connects: `sqlite://`, `postgres://`, `mysql://`, with what their drivers take behind a `?`; `authorities` is a
    /// file of certificates that the server's has to be signed by.
    pub async fn connect(url: &str, authorities: Option<&str>) -> Result<Session, BareError> {
        let scheme = url.split(':').next().unwrap_or_default();
        match scheme {
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(url)?
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(BUSY)
                    .statement_cache_capacity(PREPARED)
                    .disable_statement_logging();
                Ok(Session(Kind::Sqlite(options.connect().await?)))
            }
            "postgres" | "postgresql" => {
                let mut options = PgConnectOptions::from_str(url)?
                    .statement_cache_capacity(PREPARED)
                    .disable_statement_logging();
                if let Some(file) = authorities {
                    options = options.ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(file);
                }
                let mut session = Session(Kind::Postgres(options.connect().await?));
                let level = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED";
                session.execute(level).await?;
                Ok(session)
            }
            "mysql" | "mariadb" => {
                let mut options = MySqlConnectOptions::from_str(&url.replacen("mariadb:", "mysql:", 1))?
                    .statement_cache_capacity(PREPARED)
                    .disable_statement_logging();
                if let Some(file) = authorities {
                    options = options.ssl_mode(MySqlSslMode::VerifyIdentity).ssl_ca(file);
                }
                let mut session = Session(Kind::MySql(options.connect().await?));
                // Or every insert locks the gaps beside it.
                session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
                Ok(session)
            }
            other => Err(BareError::Odd(format!("no database is known as {other}"))),
        }
    }

    pub(crate) fn engine(&self) -> Engine {
        match self.0 {
            Kind::Sqlite(_) => Engine::Sqlite,
            Kind::Postgres(_) => Engine::Postgres,
            Kind::MySql(_) => Engine::MySql,
        }
    }

    /// Runs a statement unprepared, or several; tells how many rows they changed.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<u64, BareError> {
        on!(self, raw(sql))
    }

    /// The one number that a query finds.
    pub(crate) async fn number(&mut self, sql: &str) -> Result<i64, BareError> {
        on!(self, number(sql))
    }

    /// The texts in the first column of what a query finds.
    pub(crate) async fn texts(&mut self, sql: &str) -> Result<Vec<String>, BareError> {
        on!(self, texts(sql))
    }

    /// Begins a transaction.
    pub async fn begin(&mut self) -> Result<(), BareError> {
        on!(self, begin())
    }

    /// Commits it.
    pub async fn commit(&mut self) -> Result<(), BareError> {
        self.execute("COMMIT").await.map(drop)
    }

    /// Places an order in a transaction of its own: reads the product, takes it, inserts the order and its two events.
    pub async fn place(&mut self, order: &Order) -> Result<Placed, BareError> {
        on!(self, place(order))
    }

    /// Locks the next events that are to be sent, as many as there are up to `most`.
    pub async fn claim(&mut self, most: u32) -> Result<Vec<Event>, BareError> {
        on!(self, claim(most))
    }

    /// Marks events as sent, by one statement.
    pub async fn mark(&mut self, events: &[Event], at: DateTime<Utc>) -> Result<(), BareError> {
        on!(self, mark(events, at))
    }

    /// Puts events into queues of the database broker, where they may expire, by one statement.
    pub async fn enqueue(&mut self, rows: &[(&str, Option<DateTime<Utc>>, &Event)]) -> Result<(), BareError> {
        on!(self, enqueue(rows))
    }

    /// Writes the effects of these messages and that they were consumed, by two statements; tells their events.
    pub async fn apply(
        &mut self,
        consumer: &str,
        bodies: &[String],
        at: DateTime<Utc>,
    ) -> Result<Vec<String>, BareError> {
        let arrived =
            bodies.iter().map(|body| serde_json::from_str(body)).collect::<Result<Vec<Arrived>, _>>()?;
        on!(self, apply(consumer, &arrived, at))?;
        Ok(arrived.into_iter().map(|arrived| arrived.event_id).collect())
    }

    /// Takes up to `most` messages out of a queue of the database broker and applies them, in one transaction; tells
    /// their events.
    pub async fn consume(
        &mut self,
        queue: &str,
        consumer: &str,
        most: u32,
        at: DateTime<Utc>,
    ) -> Result<Vec<String>, BareError> {
        self.begin().await?;
        let queued = on!(self, dequeue(queue, most))?;
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
}
