//! Events that an application appends on a connection of its own.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use std::convert::identity;

use async_trait::async_trait;
use handover_outbox::ports::{NewEvent, OlderRelay, StoreError};

use crate::connection::Statements as _;
#[cfg(feature = "mysql")]
use crate::engine::mysql;
#[cfg(feature = "postgres")]
use crate::engine::postgres;
#[cfg(feature = "sqlite")]
use crate::engine::sqlite;
use crate::prefix::TablePrefix;
use crate::store::{append_statements, read_older_relay};

/// A connection of sqlx that belongs to an application.
#[async_trait]
pub trait AppendEvents: Send {
    /// Appends events in the current transaction of the connection: they are published if, and only if, it commits. The
    /// caller MUST have begun a transaction. After an error, PostgreSQL commits nothing of the transaction.
    ///
    /// No relay is woken: the time of the commit is not known here ([`SqlStore::wake_relays`](crate::SqlStore::wake_relays)).
    /// `prefix` is that of the store.
    async fn append_events(&mut self, prefix: &TablePrefix, events: &[NewEvent]) -> Result<(), StoreError>;

    /// One of the live relays that cannot publish events of text keys. The caller MUST append none while there is one.
    async fn older_relay(&mut self, prefix: &TablePrefix) -> Result<Option<OlderRelay>, StoreError>;
}

/// Implements [`AppendEvents`] for the connection of a driver.
macro_rules! append_events {
    ($feature:literal, $connection:ty, $dialect:expr, $max_payload:expr, $convert:path) => {
        #[cfg(feature = $feature)]
        #[async_trait]
        impl AppendEvents for $connection {
            async fn append_events(
                &mut self,
                prefix: &TablePrefix,
                events: &[NewEvent],
            ) -> Result<(), StoreError> {
                check_payloads(events, $max_payload)?;
                for (sql, values) in append_statements(&$dialect, events) {
                    self.execute_with(&prefix.statement(&sql), values).await.map_err($convert)?;
                }
                Ok(())
            }

            async fn older_relay(&mut self, prefix: &TablePrefix) -> Result<Option<OlderRelay>, StoreError> {
                read_older_relay(self, &$dialect, prefix).await
            }
        }
    };
}

append_events!("mysql", sqlx::MySqlConnection, mysql::MysqlDialect, 65_535, mysql::append_error);
append_events!("postgres", sqlx::PgConnection, postgres::PostgresDialect, usize::MAX, identity);
append_events!("sqlite", sqlx::SqliteConnection, sqlite::SqliteDialect, usize::MAX, identity);

/// Refuses payloads that are longer than the column. Without strict mode, MySQL and MariaDB would cut them off.
fn check_payloads(events: &[NewEvent], max_bytes: usize) -> Result<(), StoreError> {
    let Some(long) = events.iter().find(|event| event.payload.len() > max_bytes) else { return Ok(()) };
    let (event_type, bytes) = (&long.event_type, long.payload.len());
    let why = format!(
        "the payload of {event_type} has {bytes} bytes, and the column has at most {max_bytes}; store the content elsewhere, and its \
         key in the event"
    );
    Err(StoreError::Backend(why.into()))
}
