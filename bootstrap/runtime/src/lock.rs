//! Exclusive lock on the file `<database>-lock`: only one process at a time may serve a SQLite database.
//!
//! **Invariant:** the operating system releases the lock when the process ends, however it ends, so a crash needs no
//! clean-up. The file itself is never removed: otherwise two processes could lock two files of the same name.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::settings::DatabaseChoice;
use crate::sibling_file::sibling_file;

/// Exclusive right to serve a database. Dropping it releases the lock.
#[derive(Debug)]
pub struct DatabaseLock {
    _file: File,
}

impl DatabaseLock {
    /// Acquires the lock, or fails with the id of the process that holds it.
    pub fn take(database: &Path) -> Result<DatabaseLock, Failure> {
        let path = sibling_file(database, "lock");
        let failed = |cause| Failure::LockFile { path: path.clone(), cause };
        let mut file = open(&path).map_err(failed)?;
        for last in [false, true] {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if last => {
                    let holder = read_holder(&mut file);
                    return Err(Failure::InUse { database: database.to_owned(), holder });
                }
                Err(TryLockError::WouldBlock) => pause(),
                Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            }
        }
        write_holder(&mut file).map_err(failed)?;
        Ok(DatabaseLock { _file: file })
    }

    /// The failure of a process that cannot bind its address because another process serves the same database file: its
    /// port is usually the same, and an error about the port would lead to a second process on another port.
    pub fn in_use(database: &DatabaseChoice) -> Option<Failure> {
        let database = database.file()?;
        let holder = DatabaseLock::holder(database).ok()??;
        Some(Failure::InUse { database: database.to_owned(), holder })
    }

    /// The id of the process that holds the lock, as that process wrote it. Holds a shared lock on the file for a
    /// moment.
    pub fn holder(database: &Path) -> io::Result<Option<String>> {
        let mut file = match File::open(sibling_file(database, "lock")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(read_holder(&mut file))),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

/// Waits longer than [`DatabaseLock::holder`] keeps its shared lock.
#[allow(clippy::disallowed_methods, reason = "once, at startup, before any task runs")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// Reads the holder's process id, for messages only: the holder may not have written it yet.
fn read_holder(file: &mut File) -> String {
    let mut holder = String::new();
    let _ = file.read_to_string(&mut holder);
    if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() }
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_on_same_database_is_refused_and_names_holder() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("shop.db");
        let first = DatabaseLock::take(&database).unwrap();
        let refusal = DatabaseLock::take(&database).unwrap_err();
        let expected = format!("(process {})", std::process::id());
        assert!(refusal.to_string().contains(&expected), "{refusal}");
        DatabaseLock::take(&folder.path().join("other.db")).unwrap();
        drop(first);
        DatabaseLock::take(&database).unwrap();
    }

    #[test]
    fn holder_returns_process_id_and_creates_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("shop.db");
        assert_eq!(DatabaseLock::holder(&database).unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is created");
        let lock = DatabaseLock::take(&database).unwrap();
        assert_eq!(DatabaseLock::holder(&database).unwrap(), Some(std::process::id().to_string()));
        drop(lock);
        assert_eq!(DatabaseLock::holder(&database).unwrap(), None);
        DatabaseLock::take(&database).unwrap();
    }

    #[test]
    fn lock_in_missing_folder_is_refused() {
        let refusal = DatabaseLock::take(Path::new("/nowhere/shop.db")).unwrap_err();
        assert!(refusal.to_string().contains("/nowhere/shop.db-lock"), "{refusal}");
    }
}
