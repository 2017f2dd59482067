//! The archive by configuration.

use std::sync::Arc;

use handover_archive::FolderArchive;
use handover_outbox::Outbox;
use handover_outbox::archive::{Archive, NeededEvents};

use crate::failure::Failure;
use crate::settings::ArchiveConfig;

/// The archive of this outbox; `None`: `archive.url` is not set. The folder is created if it does not exist.
pub fn archive(
    outbox: &Outbox,
    config: &ArchiveConfig,
    application: Arc<dyn NeededEvents>,
) -> Result<Option<Archive>, Failure> {
    let Some(folder) = &config.folder else { return Ok(None) };
    let storage = FolderArchive::open(folder)
        .map_err(|cause| Failure::ArchiveFolder { folder: folder.clone(), cause })?;
    Ok(Some(Archive::new(outbox, Arc::new(storage), config.policy.clone(), application)))
}
