//! What an archive consists of besides its outbox.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::needed::NeededEvents;
use super::policy::RetentionPolicy;
use super::storage::ArchiveStorage;

/// Maximum number of events that leave the outbox in one unit of work.
pub(crate) const MAX_BATCH: usize = 500;

/// What an archive needs besides its outbox. Clones share it.
#[derive(Clone)]
pub(crate) struct ArchiveParts {
    pub(crate) storage: Arc<dyn ArchiveStorage>,
    pub(super) policy: RetentionPolicy,
    pub(super) application: Arc<dyn NeededEvents>,
    /// Number of events that leave the outbox in one unit of work.
    pub(super) batch: Arc<AtomicUsize>,
}

impl ArchiveParts {
    pub(crate) fn new(
        storage: Arc<dyn ArchiveStorage>,
        policy: RetentionPolicy,
        application: Arc<dyn NeededEvents>,
    ) -> ArchiveParts {
        ArchiveParts { storage, policy, application, batch: Arc::new(AtomicUsize::new(MAX_BATCH)) }
    }
}
