//! The databases: connection options and store of each.

use std::num::NonZeroU32;
use std::sync::Arc;

use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Clock, StoreError};
use handover_sql::{AppendEvents, SqlStore, TablePrefix};
use sqlx::Pool;

use crate::error::BuildError;

/// A database of sqlx in which an outbox can be: `Postgres`, `MySql` or `Sqlite`, each with the feature of this name.
pub trait Database: sqlx::Database<Connection: AppendEvents> + sealed::Sealed {
    #[doc(hidden)]
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError>;
}

mod sealed {
    pub trait Sealed {}
}

/// Where the tables of the outbox are.
#[doc(hidden)]
#[derive(Clone)]
pub enum Location {
    /// A database of a server.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    Server(handover_sql::ServerOptions),
    /// A file.
    #[cfg(feature = "sqlite")]
    File(Box<handover_sql::SqliteOptions>),
}

impl Location {
    pub(crate) fn with_table_prefix(self, prefix: TablePrefix) -> Location {
        match self {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Location::Server(options) => Location::Server(options.table_prefix(prefix)),
            #[cfg(feature = "sqlite")]
            Location::File(options) => Location::File(Box::new(options.table_prefix(prefix))),
        }
    }

    /// Opens a pool of its own, with at most this many connections to a server.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        allow(unused_variables, reason = "the pool of a file has a fixed size")
    )]
    pub(crate) async fn open(
        &self,
        connections: NonZeroU32,
        clock: Arc<dyn Clock>,
        wake: WakeupNotifier,
    ) -> Result<SqlStore, StoreError> {
        match self {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Location::Server(options) => {
                let store = SqlStore::open_server(&options.clone().connections(connections), clock, wake);
                store.probe().await?;
                Ok(store)
            }
            #[cfg(feature = "sqlite")]
            Location::File(options) => SqlStore::open_sqlite(options, clock, wake).await,
        }
    }
}

#[cfg(feature = "mysql")]
impl sealed::Sealed for sqlx::MySql {}
#[cfg(feature = "mysql")]
impl Database for sqlx::MySql {
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError> {
        let options = pool.connect_options();
        options.get_database().ok_or(BuildError::NoDatabase {})?;
        Ok(Location::Server(handover_sql::ServerOptions::mysql(options.as_ref().clone())))
    }
}

#[cfg(feature = "postgres")]
impl sealed::Sealed for sqlx::Postgres {}
#[cfg(feature = "postgres")]
impl Database for sqlx::Postgres {
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError> {
        let options = pool.connect_options();
        Ok(Location::Server(handover_sql::ServerOptions::postgres(options.as_ref().clone())))
    }
}

#[cfg(feature = "sqlite")]
impl sealed::Sealed for sqlx::Sqlite {}
#[cfg(feature = "sqlite")]
impl Database for sqlx::Sqlite {
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError> {
        let options = pool.connect_options();
        let file = handover_sql::SqliteOptions::of(options.as_ref().clone());
        Ok(Location::File(Box::new(file.ok_or(BuildError::NoFile {})?)))
    }
}
