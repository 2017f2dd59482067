//! Port: the place where the files of the archive are.

use async_trait::async_trait;

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Size of the stored file.
    pub bytes: u64,
    /// SHA-256 of the stored file in hexadecimal digits.
    pub sha256: String,
}

/// Reason why the storage did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveStorageError {
    /// There is no file with this name.
    #[error("there is no file {name} in the archive")]
    Missing {
        /// Name of the file.
        name: String,
    },
    /// The file is not the one that was written.
    #[error("the file {name} of the archive is damaged: {why}")]
    Damaged {
        /// Name of the file.
        name: String,
        /// Difference.
        why: String,
    },
    /// The storage cannot be reached, is full, or refuses access.
    #[error("cannot {what} in the archive: {why}")]
    Unavailable {
        /// What was not possible, with the name of the file: `write the file a`.
        what: String,
        /// Cause.
        why: String,
    },
}

/// Stores the files of the archive. A name consists of `a` to `z`, digits, `-`, `.` and `/`.
#[async_trait]
pub trait ArchiveStorage: Send + Sync {
    /// Stores a file, in place of a file of this name. After `Ok` the file MUST survive a loss of power; after an error or
    /// an interruption there MUST be the whole earlier file, the whole new file, or none.
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError>;

    /// The content of a file. MUST fail with `Damaged` unless the stored file has this checksum.
    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError>;

    /// Removes a file, and what an interrupted `write` of it has left; one that does not exist counts as removed. After `Ok`
    /// it MUST NOT be there after a loss of power.
    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError>;
}

/// Writes, reads and removes a small file, which has this name.
pub async fn probe(storage: &dyn ArchiveStorage, name: &str) -> Result<(), ArchiveStorageError> {
    let content = b"handover\n";
    let written = storage.write(name, content).await?;
    let read = storage.read(name, &written.sha256).await?;
    storage.remove(name).await?;
    if read == content {
        return Ok(());
    }
    let why = "its content is not the one that was written".to_owned();
    Err(ArchiveStorageError::Damaged { name: name.to_owned(), why })
}
