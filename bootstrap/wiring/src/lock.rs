//! One process serves a SQLite database: it holds an exclusive lock on a file beside it.
//!
//! **Invariant:** the system gives the lock back when the process ends, however it ends, so nothing is left to clean
//! up after a crash. The file itself stays: removing it would let two processes lock two files of one name.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::beside::beside;

/// The right to serve a database, as long as it lives.
#[derive(Debug)]
pub struct DatabaseLock {
    _file: File,
}

impl DatabaseLock {
    /// Takes it, or says who has it.
    pub fn take(database: &Path) -> Result<DatabaseLock, Failure> {
        let path = beside(database, "lock");
        let failed = |cause| Failure::LockFile { path: path.clone(), cause };
        let mut file = open(&path).map_err(failed)?;
        for last in [false, true] {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if last => {
                    let holder = written_holder(&mut file);
                    return Err(Failure::InUse { database: database.to_owned(), holder });
                }
                Err(TryLockError::WouldBlock) => pause(),
                Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            }
        }
        write_holder(&mut file).map_err(failed)?;
        Ok(DatabaseLock { _file: file })
    }

    /// Who has it: the process id as that one wrote it. Looking takes a shared lock for an instant.
    pub fn holder(database: &Path) -> io::Result<Option<String>> {
        let mut file = match File::open(beside(database, "lock")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(written_holder(&mut file))),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

/// Longer than somebody looks.
#[allow(clippy::disallowed_methods, reason = "once, at a start, before anything runs")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// Only for a message: who has it may not have written yet.
fn written_holder(file: &mut File) -> String {
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
    fn a_second_lock_on_the_same_database_is_refused_and_names_the_holder() {
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
    fn looking_names_the_holder_and_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("shop.db");
        assert_eq!(DatabaseLock::holder(&database).unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
        let lock = DatabaseLock::take(&database).unwrap();
        assert_eq!(DatabaseLock::holder(&database).unwrap(), Some(std::process::id().to_string()));
        drop(lock);
        assert_eq!(DatabaseLock::holder(&database).unwrap(), None);
        DatabaseLock::take(&database).unwrap();
    }

    #[test]
    fn a_lock_in_a_folder_that_is_not_there_is_refused() {
        let refusal = DatabaseLock::take(Path::new("/nowhere/shop.db")).unwrap_err();
        assert!(refusal.to_string().contains("/nowhere/shop.db-lock"), "{refusal}");
    }
}
