//! The storage of the archive by configuration, and its check.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use handover_archive::{ArchiveUrl, OpenError};
use handover_outbox::archive::{ArchiveStorage, ArchiveStorageError, WrittenFile, probe};

use crate::doctor::Check;
use crate::failure::Failure;
use crate::settings::ArchiveConfig;

/// Checks that the storage can be opened. A folder is created if it does not exist; a bucket is not contacted.
pub fn check_storage(config: &ArchiveConfig) -> Result<(), Failure> {
    let opened = config.url.as_ref().map(ArchiveUrl::open).transpose();
    opened.map(drop).map_err(|cause| Failure::Archive { cause })
}

/// The storage of the archive; `None`: `archive.url` is not set. It is opened when it is used first: a command that does not need
/// the archive works without it.
pub fn storage(config: &ArchiveConfig) -> Option<Arc<dyn ArchiveStorage>> {
    let url = config.url.clone()?;
    Some(Arc::new(OnDemand { url, opened: OnceLock::new() }))
}

/// The check of `doctor`: writes, reads and removes a small file.
pub async fn check(config: &ArchiveConfig) -> Check {
    const NAME: &str = "archive";
    let Some(url) = &config.url else {
        return Check::ok(
            NAME,
            "off: archive.url is not set, so that every event stays in the database".to_owned(),
        );
    };
    let storage = match url.open() {
        Ok(storage) => storage,
        Err(cause) => return Check::failed(NAME, &Failure::Archive { cause }),
    };
    match probe(&*storage, &format!("check-{}", std::process::id())).await {
        Ok(()) => Check::ok(NAME, format!("a file was written to {url}, read and removed")),
        Err(error) => Check::warn(
            NAME,
            format!("{url}: {error}"),
            "no event is lost, but none leaves the database, which grows, and the alert archive-failed starts",
            "give this process the right to write, read and remove files at archive.url, or free space there",
        ),
    }
}

struct OnDemand {
    url: ArchiveUrl,
    opened: OnceLock<Arc<dyn ArchiveStorage>>,
}

impl OnDemand {
    fn opened(&self) -> Result<&Arc<dyn ArchiveStorage>, ArchiveStorageError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = self.url.open().map_err(|OpenError { archive, why }| {
            ArchiveStorageError::Unavailable { what: format!("open {archive}"), why }
        })?;
        Ok(self.opened.get_or_init(|| opened))
    }
}

#[async_trait]
impl ArchiveStorage for OnDemand {
    async fn write(&self, name: &str, content: &[u8]) -> Result<WrittenFile, ArchiveStorageError> {
        self.opened()?.write(name, content).await
    }

    async fn read(&self, name: &str, sha256: &str) -> Result<Vec<u8>, ArchiveStorageError> {
        self.opened()?.read(name, sha256).await
    }

    async fn remove(&self, name: &str) -> Result<(), ArchiveStorageError> {
        self.opened()?.remove(name).await
    }
}
