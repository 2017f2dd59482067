//! Archive files in a folder.
//!
//! **Invariant:** a file has its name only when its bytes are on the disk, and `put` returns only when its name is, too.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, WrittenFile};

use crate::content::{self, Files, blocking};

/// An archive in a folder of the file system.
#[derive(Debug, Clone)]
pub struct FolderArchive {
    root: PathBuf,
}

impl FolderArchive {
    /// The archive in this folder, which is created if it does not exist.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<FolderArchive> {
        let archive = FolderArchive { root: root.into() };
        create_folder(&archive.root)?;
        Ok(archive)
    }

    /// Stores a file durably, at once and as a whole.
    fn store(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        // Two writers could give their names to the other's incomplete file: one whose lease ended while it was stopped, and
        // its successor. The lock ends with the process.
        let lock = File::create(self.root.join(".lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(ErrorKind::ResourceBusy, "another process writes to this archive")
            }
            TryLockError::Error(error) => error,
        })?;
        let path = self.root.join(file);
        let folder = path.parent().unwrap_or(&self.root);
        create_folder(folder)?;
        let incomplete = self.incomplete(file);
        let stored = write_durably(&incomplete, bytes).and_then(|()| fs::rename(&incomplete, &path));
        if stored.is_err() {
            // Each attempt has another name: without this, attempts on a full disk would make it fuller. The error of the
            // attempt is the one to report.
            let _ = fs::remove_file(&incomplete);
        }
        stored?;
        sync_folder(folder)
    }

    /// The name of a file until its bytes are on the disk.
    fn incomplete(&self, file: &str) -> PathBuf {
        self.root.join(format!("{file}.part"))
    }

    /// Removes a file durably, if there is one.
    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.root.is_dir() => Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_folder(path.parent().unwrap_or(&self.root)),
        }
    }

    fn why(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.root.display())
    }
}

#[async_trait]
impl Files for FolderArchive {
    async fn put(&self, file: &str, bytes: Vec<u8>) -> Result<(), String> {
        let archive = self.clone();
        let file = file.to_owned();
        blocking(move || archive.store(&file, &bytes).map_err(|error| archive.why(&error))).await
    }

    async fn get(&self, file: &str) -> Result<Option<Vec<u8>>, String> {
        let archive = self.clone();
        let path = self.root.join(file);
        blocking(move || match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            // Without the folder, for instance because a disk is not mounted, it is unknown which files there are.
            Err(error) if error.kind() == ErrorKind::NotFound && archive.root.is_dir() => Ok(None),
            Err(error) => Err(archive.why(&error)),
        })
        .await
    }

    async fn delete(&self, file: &str) -> Result<(), String> {
        let archive = self.clone();
        // The incomplete file of a killed process first: a process that still writes it can then not give it its name.
        let paths = [self.incomplete(file), self.root.join(file)];
        blocking(move || {
            paths.iter().try_for_each(|path| archive.remove(path)).map_err(|error| archive.why(&error))
        })
        .await
    }
}

#[async_trait]
impl ArchiveStorage for FolderArchive {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        content::write(self, name, content).await
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        content::read(self, name, sha256).await
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        content::remove(self, name).await
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut written = File::create(path)?;
    written.write_all(bytes)?;
    written.sync_all()
}

/// Creates a folder and those above it durably.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().unwrap_or(Path::new(""));
    create_folder(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    sync_folder(above)
}

/// Makes the names in a folder durable. Windows has no such call: it writes them with the files.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(windows) {
        return Ok(());
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}
