//! Schema versions and migration, and the databases that are rejected.

use std::collections::{BTreeMap, BTreeSet};

use handover_outbox::ports::StoreError;

use crate::migrations::{COMPATIBLE, MigrationFile, Migrations, OUTBOX, names, newest};
use crate::session::Session;
use crate::store::SqlStore;
use crate::value::values;

/// The version table of unreleased builds, in which the outbox and the marketplace shared one table.
const UNRELEASED: &str = "handover_migrations";

/// The schema version of one part of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    /// Name of the part ([`Migrations::part`]).
    pub part: &'static str,
    /// The version of the database; `None` if no migration was applied.
    pub found: Option<i64>,
    /// The version that this build requires.
    pub needed: i64,
    /// Whether this build works on the version of the database, if that is newer than `needed`: every newer migration
    /// is marked as compatible ([`Migrations`]).
    pub is_compatible: bool,
}

/// Reason why the schema of a database cannot be used or migrated.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// An unreleased build of handover created the database.
    #[error("it was created by a version of handover from before the first release")]
    Unreleased,
    /// A pending migration creates a table or an index of this name.
    #[error("it has {kind} {name} that handover did not create")]
    ForeignRelation {
        /// What has the name, such as `a table`.
        kind: String,
        /// The name.
        name: String,
    },
    /// A database error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The schema version of the outbox that this build requires.
pub fn outbox_schema() -> i64 {
    [OUTBOX.sqlite, OUTBOX.mysql, OUTBOX.postgres].into_iter().map(newest).max().unwrap_or(0)
}

impl SqlStore {
    /// Applies the pending migrations of the outbox. Processes may do this concurrently. Rejects a database that an
    /// unreleased build created, and a database in which a table or index with a name of a pending migration exists; such a
    /// database is not changed.
    pub async fn migrate(&self) -> Result<(), SchemaError> {
        self.migrate_with(&[]).await
    }

    /// Migrates the outbox, then these parts of an application. Changes nothing if any part is rejected. A part that a
    /// newer build has migrated compatibly is left as it is.
    pub async fn migrate_with(&self, parts: &[&Migrations]) -> Result<(), SchemaError> {
        self.check_parts(parts).await?;
        for migrations in [&OUTBOX].iter().chain(parts) {
            let version = self.version_of_part(migrations).await?;
            if !(version.is_newer() && version.is_compatible) {
                self.engine().migrate(migrations).await?;
            }
        }
        Ok(())
    }

    /// Rejects a database in which something has a name that a pending migration creates.
    pub(crate) async fn check_parts(&self, parts: &[&Migrations]) -> Result<(), SchemaError> {
        let mut session = self.reading().await?;
        for migrations in [&OUTBOX].iter().chain(parts) {
            session.check_names(migrations, self.engine().files(migrations)).await?;
        }
        Ok(())
    }

    /// The schema version of the outbox.
    pub async fn schema_version(&self) -> Result<SchemaVersion, SchemaError> {
        self.version_of_part(&OUTBOX).await
    }

    /// The schema version of one part of an application.
    pub async fn version_of_part(&self, migrations: &Migrations) -> Result<SchemaVersion, SchemaError> {
        let mut session = self.reading().await?;
        let existing = session.tables().await?;
        let found = session.applied(migrations, &existing, "WHERE success").await?;
        let needed = newest(self.engine().files(migrations));
        let mut version = SchemaVersion { part: migrations.part, found, needed, is_compatible: true };
        if version.is_newer() {
            let sql = format!("SELECT description FROM {} WHERE version > ?", migrations.table);
            for row in session.fetch(&sql, values![needed]).await? {
                let description = row.of(migrations.table, "description").string("description")?;
                version.is_compatible &= description.starts_with(COMPATIBLE);
            }
        }
        Ok(version)
    }

    /// Whether the tables of the outbox and of these parts have at least the versions that this build requires. Fails if
    /// the database is unreachable.
    pub async fn is_ready(&self, parts: &[&Migrations]) -> Result<bool, StoreError> {
        for part in [&OUTBOX].iter().chain(parts) {
            match self.version_of_part(part).await {
                Ok(version) if version.is_enough() => {}
                Ok(_) | Err(SchemaError::Unreleased | SchemaError::ForeignRelation { .. }) => {
                    return Ok(false);
                }
                Err(SchemaError::Store(error)) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl SchemaVersion {
    /// Whether the version is newer than the one that this build requires.
    pub fn is_newer(&self) -> bool {
        self.found.is_some_and(|found| found > self.needed)
    }

    /// Whether the version is at least the one that this build requires.
    pub fn is_enough(&self) -> bool {
        self.found.is_some_and(|found| found >= self.needed)
    }
}

impl Session {
    pub(crate) async fn tables(&mut self) -> Result<Vec<String>, StoreError> {
        let sql = self.dialect.tables();
        self.fetch(sql, values![]).await?.iter().map(|row| Ok(row.text("name")?.to_owned())).collect()
    }

    /// Rejects a database in which something has a name that a pending migration creates.
    async fn check_names(
        &mut self,
        migrations: &Migrations,
        files: &[MigrationFile],
    ) -> Result<(), SchemaError> {
        // Before the versions are read: another process may migrate meanwhile.
        let found = self.fetch(self.dialect.relations(), values![]).await?;
        let kinds: Result<BTreeMap<&str, &str>, StoreError> =
            found.iter().map(|row| Ok((row.text("name")?, row.text("kind")?))).collect();
        let kinds = kinds?;
        let existing: Vec<String> = kinds.keys().map(|name| (*name).to_owned()).collect();
        let applied = self.applied(migrations, &existing, "").await?;
        let is_applied = |(version, ..): &&MigrationFile| Some(*version) <= applied;
        let (done, pending): (Vec<_>, Vec<_>) = files.iter().partition(is_applied);
        // A pending migration may create again what an applied one has created.
        let ours: BTreeSet<&str> = done.into_iter().flat_map(names).map(|named| named.name).collect();
        let created = pending.into_iter().flat_map(names).filter(|named| named.is_created);
        for created in created.filter(|named| !ours.contains(named.name)) {
            let name = self.shared.prefix.statement(created.name);
            if let Some(kind) = kinds.get(name.as_ref()) {
                return Err(SchemaError::ForeignRelation {
                    kind: (*kind).to_owned(),
                    name: name.into_owned(),
                });
            }
        }
        Ok(())
    }

    /// The newest recorded version that meets `condition` (a `WHERE` clause, or empty).
    async fn applied(
        &mut self,
        migrations: &Migrations,
        existing: &[String],
        condition: &str,
    ) -> Result<Option<i64>, SchemaError> {
        let table = migrations.table;
        let exists = |table: &str| existing.iter().any(|name| name == table);
        if exists(&self.shared.prefix.statement(table)) {
            let sql = format!("SELECT max(version) AS version FROM {table} {condition}");
            let newest = self.fetch_one(&sql, values![]).await?;
            return Ok(newest.map(|row| row.of(table, "version").opt_int("version")).transpose()?.flatten());
        }
        if self.shared.prefix.is_empty() && exists(UNRELEASED) {
            Err(SchemaError::Unreleased)
        } else {
            Ok(None)
        }
    }
}
