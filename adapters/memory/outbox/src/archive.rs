//! In-memory storage of the archive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, WrittenFile};
use sha2::{Digest as _, Sha256};

use crate::yield_now::yield_now;

/// The files of an archive in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryArchive {
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl MemoryArchive {
    /// An archive without files.
    pub fn new() -> MemoryArchive {
        MemoryArchive::default()
    }

    /// Removes every file, as the loss of a disk does.
    pub fn clear(&self) {
        self.locked().clear();
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn checksum(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[async_trait]
impl ArchiveStorage for MemoryArchive {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        yield_now().await;
        self.locked().insert(name.to_owned(), content.to_vec());
        Ok(WrittenFile { bytes: content.len().try_into().unwrap_or(u64::MAX), sha256: checksum(content) })
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        yield_now().await;
        let content = self.locked().get(name).cloned();
        let content = content.ok_or_else(|| ArchiveStorageError::Missing { name: name.to_owned() })?;
        if checksum(&content) != sha256 {
            let why = "its checksum is not that of the file that was written".to_owned();
            return Err(ArchiveStorageError::Damaged { name: name.to_owned(), why });
        }
        Ok(content)
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        yield_now().await;
        self.locked().remove(name);
        Ok(())
    }
}
