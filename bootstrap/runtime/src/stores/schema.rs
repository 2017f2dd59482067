//! Compares the schema version of a database with the one that this program needs.

use handover_sql::{SchemaError, SchemaVersion, SqlStore};

use super::Parts;
use crate::failure::Failure;
use crate::settings::DatabaseChoice;

/// Result of comparing schema versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// Every part has the version that this program needs, or a newer one that is compatible.
    Current,
    /// An older program created the schema, or the database has no schema.
    Older(SchemaVersion),
    /// A newer program created the schema.
    Newer(SchemaVersion),
}

impl Schema {
    /// The schema versions of the toolkit's tables and of these parts.
    pub async fn versions(store: &SqlStore, parts: Parts) -> Result<Vec<SchemaVersion>, SchemaError> {
        let mut versions = vec![store.schema_version().await?];
        for part in parts {
            versions.push(store.version_of_part(part).await?);
        }
        Ok(versions)
    }

    /// Reads the schema versions of this database.
    pub async fn of(store: &SqlStore, parts: Parts, database: &DatabaseChoice) -> Result<Schema, Failure> {
        let parts = Schema::versions(store, parts).await.map_err(Failure::schema(database))?;
        let newer = parts.iter().find(|part| part.is_newer() && !part.is_compatible);
        let older = parts.iter().find(|part| part.found.unwrap_or(0) < part.needed);
        // If any part is newer, the result is Newer: a database that a newer program created must not be changed.
        Ok(match (newer, older) {
            (Some(newer), _) => Schema::Newer(*newer),
            (None, Some(older)) => Schema::Older(*older),
            (None, None) => Schema::Current,
        })
    }

    /// Fails unless the schema is current.
    pub fn current(self, database: &DatabaseChoice) -> Result<(), Failure> {
        let database = database.clone();
        match self {
            Schema::Current => Ok(()),
            Schema::Older(version) => Err(Failure::SchemaOlder { database, version }),
            Schema::Newer(version) => Err(Failure::SchemaNewer { database, version }),
        }
    }
}
