//! Events that a run of the archive has read.

use std::collections::BTreeMap;

use chrono::NaiveDate;

use super::format::encode;
use crate::ports::StoredEvent;

/// Events that are archived together. A file contains events of one day.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) days: BTreeMap<NaiveDate, Content>,
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// The content of a file.
#[derive(Default)]
pub(super) struct Content {
    pub(super) events: Vec<StoredEvent>,
    pub(super) lines: String,
}

impl Collected {
    pub(super) fn add(&mut self, day: NaiveDate, event: StoredEvent) {
        let line = encode(&event);
        self.events += 1;
        self.bytes += line.len();
        let content = self.days.entry(day).or_default();
        content.lines.push_str(&line);
        content.events.push(event);
    }
}
