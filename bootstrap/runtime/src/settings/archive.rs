//! The archive: `[archive]`.

use std::time::Duration;

use handover_archive::ArchiveUrl;
use handover_outbox::archive::{MIN_RETENTION, RetentionPolicy};

use crate::config::{Checked, ConfigError, HOUR, Item, Kind, Reader, SECOND};

/// The key of the place where the archive is.
pub const ARCHIVE_URL: &str = "archive.url";

/// `archive.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveConfig {
    /// `archive.url`: the folder or bucket of the files; `None`: no event is archived.
    pub url: Option<ArchiveUrl>,
    /// `archive.after`.
    pub policy: RetentionPolicy,
    /// `archive.interval`.
    pub interval: Duration,
}

/// Reads `archive.*`.
pub fn archive(reader: &Reader<'_>) -> Checked<ArchiveConfig> {
    let url = reader.optional(Kind::Url, ARCHIVE_URL, url);
    let why = "for an hour an event may be sent again after a commit whose result was lost";
    let after = reader.duration("archive.after", "30d", MIN_RETENTION..=HOUR * 24 * 3_650, why);
    let why = "short intervals put load on the database, and with long ones much is archived at once";
    let interval = reader.duration("archive.interval", "1h", SECOND..=HOUR * 24, why);
    Ok(ArchiveConfig { url: url?, policy: RetentionPolicy::new(after?), interval: interval? })
}

fn url(item: &Item) -> Result<ArchiveUrl, ConfigError> {
    ArchiveUrl::parse(&item.as_text()?)
        .map_err(|why| item.refused(&format!("it is not the URL of an archive: {why}"), ArchiveUrl::EXAMPLES))
}
