//! How the schema of a database stands to this program.

use std::cmp::Ordering;

use marketplace_sql::SqlMarket;

use crate::Failure;
use crate::config::DatabaseChoice;

/// How the schema of a database stands to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    /// The same.
    Current,
    /// Made by an older program; 0 is none at all.
    Older { found: i64, needed: i64 },
    /// Made by a newer one.
    Newer { found: i64, needed: i64 },
}

impl Schema {
    /// That of this database.
    pub(crate) async fn of(store: &SqlMarket, database: &DatabaseChoice) -> Result<Schema, Failure> {
        let (found, needed) = store.schema_version().await.map_err(Failure::schema(database))?;
        let found = found.unwrap_or(0);
        Ok(match found.cmp(&needed) {
            Ordering::Equal => Schema::Current,
            Ordering::Less => Schema::Older { found, needed },
            Ordering::Greater => Schema::Newer { found, needed },
        })
    }

    /// Nothing, if it is this program's.
    pub(crate) fn current(self, database: &DatabaseChoice) -> Result<(), Failure> {
        let database = database.clone();
        match self {
            Schema::Current => Ok(()),
            Schema::Older { found, needed } => Err(Failure::SchemaOlder { database, found, needed }),
            Schema::Newer { found, needed } => Err(Failure::SchemaNewer { database, found, needed }),
        }
    }
}
