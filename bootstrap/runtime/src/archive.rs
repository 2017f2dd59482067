//! The archive by configuration.

use std::sync::Arc;

use handover_outbox::Outbox;
use handover_outbox::archive::{Archive, NeededEvents};

use crate::failure::Failure;
use crate::settings::ArchiveConfig;

/// The archive of this outbox; `None`: `archive.url` is not set. A folder is created if it does not exist; a bucket is not
/// contacted.
pub fn archive(
    outbox: &Outbox,
    config: &ArchiveConfig,
    application: Arc<dyn NeededEvents>,
) -> Result<Option<Archive>, Failure> {
    let Some(url) = &config.url else { return Ok(None) };
    let storage = url.open().map_err(|cause| Failure::Archive { cause })?;
    Ok(Some(Archive::new(outbox, storage, config.policy.clone(), application)))
}
