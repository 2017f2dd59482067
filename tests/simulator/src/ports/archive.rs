//! The archive of one process: its storage, which refuses calls, fails, or stores incomplete files, and the health of the
//! database.
//!
//! A file is stored as a whole or not at all when a process ends, as the port requires.

use std::time::Duration;

use async_trait::async_trait;
use handover_memory::MemoryArchive;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, WrittenFile};
use handover_outbox::ports::{DatabaseHealth, DatabaseMonitor, StoreError};
use tokio::time::Instant;

use super::Process;
use crate::fault_kinds::{CrashPoint, Fault};

/// The storage that all processes share, as one process sees it.
pub(crate) struct FaultyArchive {
    pub(crate) inner: MemoryArchive,
    pub(crate) process: Process,
}

impl FaultyArchive {
    /// Fails while the storage refuses calls. The call needs no connection of the store's pool, but lasts long.
    async fn connect(&self, what: &str, name: &str) -> Result<(), ArchiveStorageError> {
        let faults = &self.process.faults;
        faults.needs_connection("a file of the archive");
        faults.delay().await;
        if faults.occurs(Fault::ArchiveUnavailable) {
            let until = Instant::now() + faults.random.millis(100..2_000);
            faults.observed(|observed| observed.archive_unavailable_until = Some(until));
        }
        let until = faults.observed(|observed| observed.archive_unavailable_until);
        if !faults.is_healed() && until.is_some_and(|until| until > Instant::now()) {
            return Err(failed(what, name, "the storage is unavailable"));
        }
        Ok(())
    }
}

fn failed(what: &str, name: &str, why: &str) -> ArchiveStorageError {
    ArchiveStorageError::Unavailable { what: format!("{what} the file {name}"), why: why.to_owned() }
}

#[async_trait]
impl ArchiveStorage for FaultyArchive {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        let faults = &self.process.faults;
        self.connect("write", name).await?;
        if faults.occurs(Fault::FileNotStored) {
            return Err(failed("write", name, "the disk is full"));
        }
        let written = self.inner.write(name, content).await?;
        if faults.occurs(Fault::FileTruncated) {
            self.process.note(|| format!("stores half of the file {name}"));
            let half = content.get(..content.len() / 2).unwrap_or_default();
            self.inner.write(name, half).await?;
        } else {
            self.process.note(|| format!("stores the file {name}"));
        }
        self.process.maybe_crash(CrashPoint::InArchiveWrite).await;
        if faults.occurs(Fault::FileStoredWithError) {
            return Err(failed("write", name, "the connection was lost"));
        }
        faults.delay().await;
        Ok(written)
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        self.connect("read", name).await?;
        if self.process.faults.occurs(Fault::FileUnreadable) {
            return Err(failed("read", name, "the connection was lost"));
        }
        self.inner.read(name, sha256).await
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        self.connect("remove", name).await?;
        self.inner.remove(name).await
    }
}

/// The health of the database as the archive job sees it.
pub(crate) struct FaultyMonitor {
    pub(crate) process: Process,
}

#[async_trait]
impl DatabaseMonitor for FaultyMonitor {
    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        self.process.check_leader("archive");
        self.process.faults.delay().await;
        let is_old = self.process.faults.occurs(Fault::OldTransaction);
        let oldest_transaction = Some(if is_old { Duration::from_secs(90) } else { Duration::ZERO });
        Ok(DatabaseHealth { oldest_transaction, ..DatabaseHealth::default() })
    }
}
