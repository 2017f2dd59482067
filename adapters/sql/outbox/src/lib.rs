//! The store and the database broker on SQL: one code base, a dialect per engine.
//!
//! Repositories ([`SqlStore`]) and the broker ([`DatabaseBroker`]) are written once, against a small connection trait
//! that binds and reads a few types of value. An engine adds a connection, a dialect and migrations; it adds no
//! repository.
//!
//! Each engine is a feature: `sqlite` (the default; it compiles SQLite), `mysql` (also for MariaDB) and `postgres`.
//!
//! A unit of work is a [`Session`]: an application runs its own statements in it (with `?` as placeholder on every
//! engine), and they are committed atomically with the events that it appends. It also lends the connection of the driver
//! ([`HasConnection`]), for statements with the types of sqlx.
//!
//! **Invariant:** transactions begin and end through the driver's transaction manager, and a connection is rolled back
//! before it is reused: dropping a unit of work, or the future that begins one, leaves no transaction open.
//!
//! **Invariant:** a unit of work never commits after a failed or abandoned statement.
//!
//! **Invariant:** statements get the current time as a parameter; only leases and heartbeats use the clock of the
//! database.

#![warn(missing_docs)]

#[cfg(not(any(feature = "sqlite", feature = "mysql", feature = "postgres")))]
compile_error!(
    "no database is enabled: run `cargo add handover --features postgres` (or `mysql`, `sqlite`); with handover-sql alone, \
     enable one of its features of the same names"
);

mod appending;
mod broker;
mod comparison;
mod connection;
mod deferred;
mod dialect;
mod engine;
mod engine_info;
mod error;
mod lending;
mod migrations;
mod pending;
mod pools;
mod prefix;
mod row;
mod schema;
mod session;
mod shared;
mod store;
mod table;
mod timing;
mod value;
mod wakeup;

pub use appending::AppendEvents;
pub use broker::DatabaseBroker;
pub use comparison::{SchemaDifference, SchemaItem};
pub use dialect::{Claiming, Dialect, Joining, LookUp, MAX_ROWS, padded, placeholders};
pub use engine::access_refusal;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use engine::server::{InvalidOptions, ServerOptions};
#[cfg(feature = "sqlite")]
pub use engine::sqlite::{ForeignLog, SqliteOptions};
pub use engine_info::{ServerInfo, UnsuitableSetting};
#[doc(hidden)]
pub use handover_outbox::ports::StoreError;
pub use lending::{HasConnection, lent_error, lent_outage};
pub use migrations::{ExpectedSchema, MigrationFile, Migrations};
pub use pending::PendingMigration;
pub use pools::METRICS;
pub use prefix::{InvalidTablePrefix, TablePrefix};
pub use row::{Fields, Row};
pub use schema::{SchemaError, SchemaVersion, outbox_schema};
pub use session::{RowClaim, Session};
pub use store::SqlStore;
pub use table::Table;
pub use timing::TARGET as STATEMENT_TARGET;
pub use value::Value;
