//! A storage in memory and a store, of which one call fails.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, WrittenFile};
use handover_outbox::ports::*;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call has no effect.
    Refused,
    /// The call has its effect, but its answer is lost.
    AnswerLost,
}

/// Lets one call fail: of the calls to store and storage, in their order.
#[derive(Debug)]
pub(crate) struct Fuse {
    failure: Failure,
    calls_before: AtomicUsize,
}

impl Fuse {
    pub(crate) fn after(calls: usize, failure: Failure) -> Arc<Fuse> {
        Arc::new(Fuse { failure, calls_before: AtomicUsize::new(calls) })
    }

    pub(crate) fn has_blown(&self) -> bool {
        self.calls_before.load(Ordering::Relaxed) > usize::MAX / 2
    }

    /// The failure of the next call.
    fn next(&self) -> Option<Failure> {
        (self.calls_before.fetch_sub(1, Ordering::Relaxed) == 0).then_some(self.failure)
    }
}

/// What the storage does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    RefusesWrites,
    RefusesRemovals,
    /// The end of the last line is lost.
    Truncates,
    /// The last line is lost.
    LosesEvent,
}

/// Files in memory.
pub(crate) struct Files {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    fault: Fault,
}

impl Files {
    pub(crate) fn with(fault: Fault) -> Arc<Files> {
        Arc::new(Files { files: Mutex::default(), fault })
    }

    pub(crate) fn lose_all(&self) {
        self.files.lock().unwrap().clear();
    }

    /// The lines of all files.
    pub(crate) fn lines(&self) -> Vec<String> {
        let files = self.files.lock().unwrap();
        let lines = files.values().flat_map(|content| std::str::from_utf8(content).unwrap().lines());
        lines.map(str::to_owned).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.files.lock().unwrap().keys().cloned().collect()
    }
}

#[async_trait]
impl ArchiveStorage for Files {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        tokio::task::yield_now().await;
        let mut content = content.to_vec();
        match self.fault {
            Fault::None | Fault::RefusesRemovals => {}
            Fault::RefusesWrites => return Err(unavailable("no space left")),
            Fault::Truncates => content.truncate(content.len() - 2),
            Fault::LosesEvent => {
                content.pop();
                content.truncate(content.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
            }
        }
        let bytes = content.len().try_into().unwrap();
        self.files.lock().unwrap().insert(name.to_owned(), content);
        tokio::task::yield_now().await;
        Ok(WrittenFile { bytes, sha256: "00".repeat(32) })
    }

    async fn read(&self, name: &str, _sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        tokio::task::yield_now().await;
        let files = self.files.lock().unwrap();
        files.get(name).cloned().ok_or_else(|| ArchiveStorageError::Missing { name: name.to_owned() })
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        if self.fault == Fault::RefusesRemovals {
            return Err(unavailable("access denied"));
        }
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
}

fn unavailable(why: &str) -> ArchiveStorageError {
    ArchiveStorageError::Unavailable { what: "use a file".to_owned(), why: why.to_owned() }
}

/// Store or storage with a fuse.
pub(crate) struct Fused<T>(pub(crate) T, pub(crate) Arc<Fuse>);

#[async_trait]
impl ArchiveStorage for Fused<Arc<Files>> {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        match self.1.next() {
            None => self.0.write(name, content).await,
            Some(failure) => {
                if failure == Failure::AnswerLost {
                    self.0.write(name, content).await?;
                }
                Err(unavailable("connection lost"))
            }
        }
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        match self.1.next() {
            None => self.0.read(name, sha256).await,
            Some(_) => Err(unavailable("connection lost")),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        match self.1.next() {
            None => self.0.remove(name).await,
            Some(failure) => {
                if failure == Failure::AnswerLost {
                    self.0.remove(name).await?;
                }
                Err(unavailable("connection lost"))
            }
        }
    }
}

#[async_trait]
impl Store for Fused<Arc<OutboxStore>> {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        match self.1.next() {
            None => Ok(Box::new(Fused(self.0.begin().await?, Arc::clone(&self.1)))),
            Some(_) => Err(StoreError::Unavailable("connection lost".into())),
        }
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        match self.1.next() {
            None => self.0.view().await,
            Some(_) => Err(StoreError::Unavailable("connection lost".into())),
        }
    }
}

impl View for Fused<Box<dyn UnitOfWork>> {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self.0.outbox_view()
    }
}

#[async_trait]
impl UnitOfWork for Fused<Box<dyn UnitOfWork>> {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self.0.outbox()
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        match self.1.next() {
            None => self.0.commit().await,
            Some(Failure::Refused) => Err(StoreError::Unavailable("connection lost".into())),
            Some(Failure::AnswerLost) => {
                self.0.commit().await?;
                Err(StoreError::CommitUnknown("connection lost".into()))
            }
        }
    }
}
