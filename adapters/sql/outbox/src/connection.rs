//! What the repositories need of a database: a connection, and an engine to get one from.

use async_trait::async_trait;
use handover_outbox::ports::StoreError;

use crate::bells::Bells;
use crate::dialect::Dialect;
use crate::engine::migrations::{MigrationFile, Migrations};
use crate::facts::ServerFacts;
use crate::row::Row;
use crate::value::Value;

/// Ends a transaction, on every engine.
pub(crate) const COMMIT: &str = "COMMIT";

/// A pooled connection. Dropping it gives it back, rolled back.
#[async_trait]
pub(crate) trait Connection: Send {
    /// Runs a statement; tells how many rows it changed.
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError>;

    /// Runs a statement and reads what it returns.
    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError>;
}

/// A database of one kind.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    /// What differs in its SQL.
    fn dialect(&self) -> &'static dyn Dialect;

    /// A connection that may write, outside any transaction.
    async fn writer(&self) -> Result<Box<dyn Connection>, StoreError>;

    /// A connection for reading committed data, that holds up no writer.
    async fn reader(&self) -> Result<Box<dyn Connection>, StoreError>;

    /// Makes one connection beside the pool, which would go on trying and then not say why it could not.
    async fn probe(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Brings one part of the schema up to date. Safe beside another process that does the same.
    async fn migrate(&self, migrations: &Migrations) -> Result<(), StoreError>;

    /// Of these migrations those for this engine.
    fn files(&self, migrations: &Migrations) -> &'static [MigrationFile];

    /// What the server says about itself; nothing where there is none.
    async fn facts(&self) -> Result<Option<ServerFacts>, StoreError> {
        Ok(None)
    }

    /// Whether the database refuses this user to change or remove entries of the audit log: by the triggers of its schema,
    /// which only the owner of the tables can take away, unless it says otherwise.
    async fn guards_audit_log(&self) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Rings these bells for what other processes commit, and tells them what was rung here, until it is dropped.
    async fn watch(&self, bells: &Bells);

    /// Tells other processes this; at once, and only once.
    async fn tell(&self, text: &str) -> Result<(), StoreError>;

    /// Closes every connection.
    async fn close(&self);
}
