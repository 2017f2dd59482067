//! The store and the database broker on SQL: one code base, a dialect per engine.
//!
//! Repositories ([`SqlStore`]) and the broker ([`DatabaseBroker`]) are written once, against a small connection that
//! binds and reads four kinds of value. An engine adds a connection, a dialect and migrations; it adds no repository.
//!
//! A unit of work is a [`Session`]: an application runs its own statements in it (`?` stands for a value, on every
//! engine), and they are committed together with the events that it appends, or not at all.
//!
//! **Invariant:** a transaction is managed by plain statements, and a connection is rolled back before it is used
//! again: whoever drops a unit, or the very future that begins one, leaves nothing open.
//!
//! **Invariant:** after a failed or abandoned statement a unit never commits.
//!
//! **Invariant:** time enters as a bound value; leases and heartbeats alone are judged by the database's own now.

mod bells;
mod broker;
mod connection;
mod dialect;
mod engine;
mod facts;
mod fault;
mod row;
mod schema;
mod session;
mod store;
mod timing;
mod value;

pub use broker::DatabaseBroker;
pub use dialect::{Claiming, Dialect, LookUp, MAX_ROWS, marks, padded};
pub use engine::migrations::{MigrationFile, Migrations};
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use engine::server::{InvalidOptions, ServerOptions};
pub use engine::sqlite::SqliteOptions;
pub use facts::ServerFacts;
pub use fault::access_refusal;
pub use row::{Fields, Row};
pub use schema::{SchemaError, SchemaVersion};
pub use session::Session;
pub use store::SqlStore;
pub use timing::TARGET as STATEMENTS;
pub use value::{Value, trace_columns};
