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
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message: who has it may not have written yet.
                let _ = file.read_to_string(&mut holder);
                let holder =
                    if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() };
                return Err(Failure::InUse { database: database.to_owned(), holder });
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        write_holder(&mut file).map_err(failed)?;
        Ok(DatabaseLock { _file: file })
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
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
    fn a_lock_in_a_folder_that_is_not_there_is_refused() {
        let refusal = DatabaseLock::take(Path::new("/nowhere/shop.db")).unwrap_err();
        assert!(refusal.to_string().contains("/nowhere/shop.db-lock"), "{refusal}");
    }
}
