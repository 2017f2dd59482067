//! Compares the schema version of a database with the one that this program needs.

use handover_sql::SchemaVersion;
use marketplace_sql::SqlMarket;

use crate::Failure;
use crate::config::DatabaseChoice;

/// Result of comparing schema versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// The versions are equal.
    Current,
    /// An older program created the schema; version 0 means that there is none.
    Older {
        /// `outbox` or `marketplace`.
        part: &'static str,
        /// Version in the database.
        found: i64,
        /// Version that this program needs.
        needed: i64,
    },
    /// A newer program created the schema.
    Newer {
        /// `outbox` or `marketplace`.
        part: &'static str,
        /// Version in the database.
        found: i64,
        /// Version that this program needs.
        needed: i64,
    },
}

impl Schema {
    /// Reads the schema versions of this database.
    pub async fn of(store: &SqlMarket, database: &DatabaseChoice) -> Result<Schema, Failure> {
        let versions = store.schema_versions().await.map_err(Failure::schema(database))?;
        let parts = versions.map(|SchemaVersion { part, found, needed }| (part, found.unwrap_or(0), needed));
        // If any part is newer, the result is Newer: a database that a newer program created must not be changed.
        if let Some(&(part, found, needed)) = parts.iter().find(|(_, found, needed)| found > needed) {
            return Ok(Schema::Newer { part, found, needed });
        }
        Ok(match parts.iter().find(|(_, found, needed)| found < needed) {
            Some(&(part, found, needed)) => Schema::Older { part, found, needed },
            None => Schema::Current,
        })
    }

    /// Fails unless the schema is current.
    pub fn current(self, database: &DatabaseChoice) -> Result<(), Failure> {
        let database = database.clone();
        match self {
            Schema::Current => Ok(()),
            Schema::Older { part, found, needed } => {
                Err(Failure::SchemaOlder { database, part, found, needed })
            }
            Schema::Newer { part, found, needed } => {
                Err(Failure::SchemaNewer { database, part, found, needed })
            }
        }
    }
}
