//! How the schema of a database stands to this program.

use handover_sql::SchemaVersion;
use marketplace_sql::SqlMarket;

use crate::Failure;
use crate::config::DatabaseChoice;

/// How the schema of a database stands to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// The same.
    Current,
    /// Made by an older program; 0 is none at all.
    Older {
        /// Of which part.
        part: &'static str,
        /// The version it has.
        found: i64,
        /// The version this program needs.
        needed: i64,
    },
    /// Made by a newer one.
    Newer {
        /// Of which part.
        part: &'static str,
        /// The version it has.
        found: i64,
        /// The version this program needs.
        needed: i64,
    },
}

impl Schema {
    /// That of this database.
    pub async fn of(store: &SqlMarket, database: &DatabaseChoice) -> Result<Schema, Failure> {
        let versions = store.schema_versions().await.map_err(Failure::schema(database))?;
        let parts = versions.map(|SchemaVersion { part, found, needed }| (part, found.unwrap_or(0), needed));
        // Of two parts the newer one decides: nothing is changed in what a newer program made.
        if let Some(&(part, found, needed)) = parts.iter().find(|(_, found, needed)| found > needed) {
            return Ok(Schema::Newer { part, found, needed });
        }
        Ok(match parts.iter().find(|(_, found, needed)| found < needed) {
            Some(&(part, found, needed)) => Schema::Older { part, found, needed },
            None => Schema::Current,
        })
    }

    /// Nothing, if it is this program's.
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
