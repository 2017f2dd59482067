//! Databases by URL: opening, migrating, checking the schema, backup.

mod attached;
mod backup;
mod database;
mod schema;

use std::sync::Arc;

use handover_outbox::ports::{Clock, Store};
use handover_outbox::{Tasks, Transactor};
use handover_sql::Migrations;
use handover_system::{EntropyError, OsRandom};

pub use attached::AttachedDatabase;
pub use backup::{Backup, backup};
pub use database::Database;
pub use schema::Schema;

/// The parts of a schema that a program needs besides the tables of the toolkit.
pub type Parts = &'static [&'static Migrations];

/// Runs units of work on this store, with the random numbers of the operating system.
pub fn transactor<U: ?Sized, V: ?Sized>(
    store: Arc<dyn Store<Unit = U, View = V>>,
    clock: &Arc<dyn Clock>,
) -> Result<Transactor<U, V>, EntropyError> {
    Ok(Transactor::new(store, Arc::clone(clock), Arc::new(OsRandom::seeded()?), Tasks::default()))
}
