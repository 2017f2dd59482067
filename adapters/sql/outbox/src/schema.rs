//! The version of the schema, and what keeps a database from being migrated.

use handover_outbox::ports::StoreError;

use crate::engine::migrations::{TABLE, newest, tables};
use crate::session::Session;
use crate::store::SqlStore;
use crate::value::values;

/// The SHA-384 of the first migration of handover before its first release, on SQLite, MySQL and PostgreSQL. Its eight
/// migrations were recorded in `_sqlx_migrations` and are replaced by one baseline, which cannot be applied on top of them.
const UNRELEASED: [&str; 3] = [
    "E5C47C4C2D7E76BEB0EFAC47067ADE237CDA13C82770546CCD21618F81EA65ABA1CA353988336CD534765B490347B7F5",
    "80D31DB6DF1E636BDA6C1F5013CAB886045055EE847888B5469A8968FE579C8D02A1D4ED22D64AF09A4DDABA940B9E9A",
    "233BC807286FA4012B0BF0685EF49785341D3BD9EBA6A6319A8ADA7CAC1D4D41257297AD6B7131C45F9C9B94A82C3839",
];

/// Why the schema of a database cannot be used or migrated.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A version of handover from before its first release created the database.
    #[error("it was created by a version of handover from before the first release")]
    Unreleased,
    /// A table that handover has to create exists already.
    #[error("it has a table {0} that handover did not create")]
    ForeignTable(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SqlStore {
    /// Brings the schema up to date. Safe beside another process that does the same. Refuses, before the first statement, a
    /// database that an unreleased version created and one in which a table of the same name exists.
    pub async fn migrate(&self) -> Result<(), SchemaError> {
        let mut session = self.reading().await?;
        let existing = session.tables().await?;
        let has_begun = session.applied(&existing, "").await?.is_some();
        drop(session);
        if !has_begun {
            let foreign =
                tables(self.engine().migrations()).find(|table| existing.iter().any(|name| name == table));
            if let Some(table) = foreign {
                return Err(SchemaError::ForeignTable(table.to_owned()));
            }
        }
        Ok(self.engine().migrate().await?)
    }

    /// The version the schema has, if it has any, and the one this build needs.
    pub async fn schema_version(&self) -> Result<(Option<i64>, i64), SchemaError> {
        let mut session = self.reading().await?;
        let existing = session.tables().await?;
        let applied = session.applied(&existing, "WHERE success").await?;
        Ok((applied, newest(self.engine().migrations())))
    }

    /// Whether the database answers and its schema is what this build needs.
    pub async fn is_ready(&self) -> Result<bool, StoreError> {
        match self.schema_version().await {
            Ok((applied, needed)) => Ok(applied.is_some_and(|applied| applied >= needed)),
            Err(SchemaError::Unreleased | SchemaError::ForeignTable(_)) => Ok(false),
            Err(SchemaError::Store(error)) => Err(error),
        }
    }
}

impl Session {
    async fn tables(&mut self) -> Result<Vec<String>, StoreError> {
        let sql = self.dialect.tables();
        self.fetch(sql, values![]).await?.iter().map(|row| Ok(row.text("name")?.to_owned())).collect()
    }

    /// The newest version that is recorded, of those that fit.
    async fn applied(&mut self, existing: &[String], which: &str) -> Result<Option<i64>, SchemaError> {
        let exists = |table: &str| existing.iter().any(|name| name == table);
        if exists(TABLE) {
            let sql = format!("SELECT max(version) AS version FROM {TABLE} {which}");
            let newest = self.fetch_one(&sql, values![]).await?;
            return Ok(newest.map(|row| row.of(TABLE, "version").opt_int("version")).transpose()?.flatten());
        }
        if exists("_sqlx_migrations") {
            let checksum = self.dialect.hexadecimal("checksum");
            let sql = format!("SELECT {checksum} AS checksum FROM _sqlx_migrations WHERE version = 1");
            for row in self.fetch(&sql, values![]).await? {
                if UNRELEASED.contains(&row.text("checksum")?) {
                    return Err(SchemaError::Unreleased);
                }
            }
        }
        Ok(None)
    }
}
