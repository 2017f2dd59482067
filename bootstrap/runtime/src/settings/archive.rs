//! The archive: `[archive]`.

use std::ops::RangeInclusive;
use std::time::Duration;

use handover_archive::ArchiveUrl;
use handover_outbox::archive::{MIN_RETENTION, RetentionPolicy};
use toml::Value;

use crate::config::{Checked, ConfigError, HOUR, Item, Kind, Reader, SECOND, best, similarity};

/// The key of the place where the archive is.
pub const ARCHIVE_URL: &str = "archive.url";

/// Times for which events stay in the database.
const RETENTION: RangeInclusive<Duration> = MIN_RETENTION..=HOUR.saturating_mul(24 * 3_650);

/// `archive.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveConfig {
    /// `archive.url`: the folder or bucket of the files; `None`: no event is archived.
    pub url: Option<ArchiveUrl>,
    /// `archive.after` and `archive.after-by-type`.
    pub policy: RetentionPolicy,
    /// `archive.interval`.
    pub interval: Duration,
}

/// Reads `archive.*`. These are the event types that may have a retention time of their own.
pub fn archive(reader: &Reader<'_>, event_types: &[&'static str]) -> Checked<ArchiveConfig> {
    let url = reader.optional(Kind::Url, ARCHIVE_URL, url);
    let why = "for an hour an event may be sent again after a commit whose result was lost";
    let after = reader.duration("archive.after", "30d", RETENTION, why);
    let by_type = reader.key(Kind::Value, "archive.after-by-type", "{}", |item| by_type(item, event_types));
    let why = "short intervals put load on the database, and with long ones much is archived at once";
    let interval = reader.duration("archive.interval", "1h", SECOND..=HOUR * 24, why);
    let policy = RetentionPolicy::new(after?);
    let policy = by_type?.into_iter().fold(policy, |policy, (name, after)| policy.with_type(name, after));
    Ok(ArchiveConfig { url: url?, policy, interval: interval? })
}

fn by_type(item: &Item, event_types: &[&'static str]) -> Result<Vec<(&'static str, Duration)>, ConfigError> {
    let Value::Table(all) = item.value() else {
        let example = event_types.first().unwrap_or(&"EVENT_TYPE");
        let remedy = format!("write {{{example} = \"90d\"}}, or remove the key");
        return Err(item.refused("it is not a table of event types", &remedy));
    };
    let read = |(name, value): (&String, &Value)| {
        let Some(name) = event_types.iter().copied().find(|known| known == name) else {
            return Err(unknown(item, name, event_types));
        };
        let after = item.duration_of(value)?;
        if !RETENTION.contains(&after) {
            let why = "for an hour an event may be sent again after a commit whose result was lost";
            return Err(item.refused(why, "set durations from \"1h\" to \"3650d\""));
        }
        Ok((name, after))
    };
    all.iter().map(read).collect()
}

fn unknown(item: &Item, name: &str, event_types: &[&'static str]) -> ConfigError {
    let remedy = match best(event_types.iter().copied(), |known| similarity(known, name)) {
        Some(nearest) => format!("did you mean \"{nearest}\"? otherwise remove it"),
        None => "write the name of an event type, as `handover topology` lists it".to_owned(),
    };
    item.refused_as(&format!("for \"{name}\""), "there is no such event type", &remedy)
}

fn url(item: &Item) -> Result<ArchiveUrl, ConfigError> {
    ArchiveUrl::parse(&item.as_text()?)
        .map_err(|why| item.refused(&format!("it is not the URL of an archive: {why}"), ArchiveUrl::EXAMPLES))
}
