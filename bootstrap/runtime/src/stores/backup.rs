//! Backup of a database file that may be served, with the files of its secrets.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use handover_sql::SchemaVersion;

use super::{AttachedDatabase, Parts, Schema};
use crate::failure::Failure;
use crate::secrets::SecretKind;
use crate::settings::DatabaseChoice;

/// A backup of a database file.
#[derive(Debug)]
pub struct Backup {
    /// Size of the copy of the database in bytes.
    pub bytes: u64,
    /// Copies of the files with secrets.
    pub secrets: Vec<PathBuf>,
}

/// Copies the database file into the new file `copy`, also while a process serves it, and next to it the files with those of
/// these secrets that are in files. The copies are complete, verified and on disk when this returns, and only their owner may
/// read them. If it fails, no copy of the database remains.
pub async fn backup(
    choice: &DatabaseChoice,
    parts: Parts,
    secrets: &[&SecretKind],
    copy: &Path,
) -> Result<Backup, Failure> {
    if let DatabaseChoice::Server(_) = choice {
        return Err(Failure::Usage {
            what: format!("`handover backup` copies database files, and {choice} is on a server"),
            remedy:
                "use the program of the server: `mariadb-dump --single-transaction` (mysqldump) or `pg_dump`"
                    .to_owned(),
        });
    }
    let failed = |cause| Failure::Backup { copy: copy.to_owned(), cause };
    for file in std::iter::once(copy.to_owned()).chain(secrets.iter().map(|kind| kind.file(copy))) {
        if std::fs::symlink_metadata(&file).is_ok() {
            return Err(Failure::Backup { copy: file, cause: io::ErrorKind::AlreadyExists.into() });
        }
    }
    if copy.to_str().is_none() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidFilename, "the path is not UTF-8")));
    }
    let folder = match copy.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    // An unfinished copy has another name and is deleted. `tempfile` creates it with mode 0600.
    let unfinished =
        tempfile::Builder::new().prefix(".handover-backup-").tempfile_in(folder).map_err(failed)?;
    let database = AttachedDatabase::open(choice, parts).await?;
    let copied = copy_from(&database, unfinished.path()).await;
    database.store.close().await;
    copied?;
    unfinished.as_file().sync_all().map_err(failed)?;
    let bytes = unfinished.as_file().metadata().map_err(failed)?.len();
    // Before the copy of the database appears: the secrets of webhooks in it cannot be read without their key.
    let copied = secrets.iter().filter_map(|kind| kind.copy(choice.file()?, copy).transpose());
    let secrets = copied.collect::<Result<_, _>>()?;
    unfinished.persist_noclobber(copy).map_err(|error| failed(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(Backup { bytes, secrets })
}

async fn copy_from(database: &AttachedDatabase, copy: &Path) -> Result<(), Failure> {
    // A file without handover's schema is not the database that the user means.
    if let empty @ Schema::Older(SchemaVersion { found: None, .. }) = database.schema().await? {
        empty.current(&database.choice)?;
    }
    database.store.backup(copy).await.map_err(Failure::database(&database.choice))
}
