//! The archive: `[archive]`.

use std::path::PathBuf;
use std::time::Duration;

use handover_outbox::archive::{MIN_RETENTION, RetentionPolicy};

use crate::config::{Checked, ConfigError, HOUR, Item, Kind, Reader, SECOND};

/// The key of the place where the archive is.
pub const ARCHIVE_URL: &str = "archive.url";

/// `archive.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveConfig {
    /// `archive.url`: the folder of the files; `None`: no event is archived.
    pub folder: Option<PathBuf>,
    /// `archive.after`.
    pub policy: RetentionPolicy,
    /// `archive.interval`.
    pub interval: Duration,
}

/// Reads `archive.*`.
pub fn archive(reader: &Reader<'_>) -> Checked<ArchiveConfig> {
    let folder = reader.optional(Kind::Text, ARCHIVE_URL, folder);
    let why = "for an hour an event may be sent again after a commit whose result was lost";
    let after = reader.duration("archive.after", "30d", MIN_RETENTION..=HOUR * 24 * 3_650, why);
    let why = "short intervals put load on the database, and with long ones much is archived at once";
    let interval = reader.duration("archive.interval", "1h", SECOND..=HOUR * 24, why);
    Ok(ArchiveConfig { folder: folder?, policy: RetentionPolicy::new(after?), interval: interval? })
}

fn folder(item: &Item) -> Result<PathBuf, ConfigError> {
    let url = item.as_text()?;
    let folder = url.strip_prefix("file:").map(|path| path.strip_prefix("//").unwrap_or(path));
    match folder {
        Some(path) if !path.is_empty() => Ok(path.into()),
        Some(_) | None => Err(item.refused(
            "it is not the URL of a folder",
            "write file: and the path of a folder that every process can write: file:archive, file:///srv/archive",
        )),
    }
}
