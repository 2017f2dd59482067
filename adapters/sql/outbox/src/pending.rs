//! The migrations that a database needs, without running them.

use sqlx::migrate::MigrateError;

use handover_outbox::ports::StoreError;

use crate::migrations::{MigrationFile, Migrations, OUTBOX};
use crate::prefix::TablePrefix;
use crate::schema::SchemaError;
use crate::session::Session;
use crate::store::SqlStore;
use crate::value::values;

/// A migration that a database needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingMigration {
    /// Name of the part ([`Migrations::part`]).
    pub part: &'static str,
    /// The version after the migration.
    pub version: i64,
    /// Its description.
    pub description: String,
    /// The statements, with the names of this database.
    pub sql: String,
    /// Whether an earlier run was interrupted (MySQL and MariaDB): the statements whose change exists are skipped.
    pub is_interrupted: bool,
}

impl SqlStore {
    /// The migrations that [`migrate_with`](SqlStore::migrate_with) would apply, in this order. Rejects what it rejects.
    pub async fn pending_migrations(
        &self,
        parts: &[&Migrations],
    ) -> Result<Vec<PendingMigration>, SchemaError> {
        self.check_parts(parts).await?;
        let mut pending = Vec::new();
        for part in [&OUTBOX].iter().chain(parts) {
            let version = self.version_of_part(part).await?;
            if !(version.is_newer() && version.is_compatible) {
                let recorded = self.reading().await?.recorded(part).await?;
                let files = self.engine().files(part);
                pending.extend(unapplied(self.engine().prefix(), part, files, &recorded)?);
            }
        }
        Ok(pending)
    }

    /// The migrations of a new database file, for the outbox and these parts.
    #[cfg(feature = "sqlite")]
    pub fn migrations_of_new_file(parts: &[&Migrations]) -> Result<Vec<PendingMigration>, StoreError> {
        let mut pending = Vec::new();
        for part in [&OUTBOX].iter().chain(parts) {
            pending.extend(unapplied(&TablePrefix::default(), part, part.sqlite, &[])?);
        }
        Ok(pending)
    }
}

/// A row of the version table.
struct Recorded {
    version: i64,
    checksum: String,
    is_done: bool,
}

impl Session {
    async fn recorded(&mut self, migrations: &Migrations) -> Result<Vec<Recorded>, StoreError> {
        let table = self.shared.prefix.statement(migrations.table);
        if !self.tables().await?.iter().any(|name| *name == table) {
            return Ok(Vec::new());
        }
        let checksum = self.dialect.hexadecimal("checksum");
        let sql = format!(
            "SELECT version, {checksum} AS checksum, CASE WHEN success THEN 1 ELSE 0 END AS done FROM {}",
            migrations.table
        );
        let rows = self.fetch(&sql, values![]).await?;
        let recorded = rows.iter().map(|row| {
            Ok(Recorded {
                version: row.int("version")?,
                checksum: row.text("checksum")?.to_owned(),
                is_done: row.int("done")? == 1,
            })
        });
        recorded.collect()
    }
}

/// The files without a record of success. Fails if a recorded file had another content, as a migration does.
fn unapplied(
    prefix: &TablePrefix,
    migrations: &Migrations,
    files: &[MigrationFile],
    recorded: &[Recorded],
) -> Result<Vec<PendingMigration>, StoreError> {
    let mut pending = Vec::new();
    for migration in prefix.migrator(migrations, files).iter() {
        let hexadecimal: String = migration.checksum.iter().map(|byte| format!("{byte:02X}")).collect();
        let record = recorded.iter().find(|record| record.version == migration.version);
        match record {
            Some(record) if record.is_done && record.checksum == hexadecimal => {}
            Some(record) if record.is_done => {
                return Err(StoreError::Backend(Box::new(MigrateError::VersionMismatch(migration.version))));
            }
            Some(_) | None => pending.push(PendingMigration {
                part: migrations.part,
                version: migration.version,
                description: migration.description.to_string(),
                sql: migration.sql.as_str().to_owned(),
                is_interrupted: record.is_some(),
            }),
        }
    }
    Ok(pending)
}
