//! Log lines about an outage of the broker, one set per process: a line when it begins, one per minute while it lasts, and
//! one when it ends, with the number of events that were published since.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tracing::{info, warn};

/// Time between two lines about an outage that lasts.
const REPEAT: Duration = Duration::from_secs(60);

/// An outage of the broker: it cannot be reached, or accepts no messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Time at which a process noticed it first.
    pub since: DateTime<Utc>,
    /// The last error.
    pub error: String,
}

/// The current outage of the broker, as relay, consumers and dead-letter drainer of one process have noticed it.
#[derive(Debug, Default)]
pub(crate) struct BrokerOutage(Mutex<Option<Ongoing>>);

#[derive(Debug)]
struct Ongoing {
    since: Instant,
    next_line: Instant,
    /// Whether the relay could not publish. The outage then ends when it has published the events that waited.
    has_backlog: bool,
    /// Whether the broker accepts messages of the relay again.
    is_back: bool,
    published: usize,
    /// The last error.
    error: String,
}

impl Ongoing {
    fn seconds(&self) -> u64 {
        self.since.elapsed().as_secs()
    }

    /// Whether a line is due; the next one is due a minute later.
    fn is_line_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.next_line;
        if is_due {
            self.next_line = now + REPEAT;
        }
        is_due
    }
}

impl BrokerOutage {
    /// The relay could not publish.
    pub(crate) fn stops_relay(&self, error: &dyn Display) {
        self.noticed(error, true);
    }

    /// A consumer could not subscribe, or the topology could not be declared.
    pub(crate) fn stops_consumers(&self, error: &dyn Display) {
        self.noticed(error, false);
    }

    fn noticed(&self, error: &dyn Display, by_relay: bool) {
        let mut current = self.current();
        if let Some(ongoing) = &mut *current {
            ongoing.error = error.to_string();
            if by_relay {
                ongoing.has_backlog = true;
                ongoing.is_back = false;
            }
            if ongoing.is_line_due() {
                warn!(
                    code = "broker.outage.lasts",
                    %error,
                    seconds = ongoing.seconds(),
                    published = ongoing.published,
                    "[Broker] outage lasts; events wait in the outbox, retrying"
                );
            }
            return;
        }
        let since = Instant::now();
        *current = Some(Ongoing {
            since,
            next_line: since + REPEAT,
            has_backlog: by_relay,
            is_back: false,
            published: 0,
            error: error.to_string(),
        });
        drop(current);
        warn!(
            code = "broker.outage.begins",
            %error,
            "[Broker] [ALERT] outage begins; publishing and consuming paused, events wait in the outbox"
        );
    }

    /// The relay has published events; `is_drained` is whether no more of them are due.
    pub(crate) fn published(&self, events: usize, is_drained: bool) {
        let mut current = self.current();
        let Some(ongoing) = &mut *current else { return };
        ongoing.is_back = true;
        ongoing.published = ongoing.published.saturating_add(events);
        if !is_drained {
            if ongoing.is_line_due() {
                info!(
                    code = "broker.outage.catching-up",
                    seconds = ongoing.seconds(),
                    published = ongoing.published,
                    "[Broker] broker reachable again; publishing the events that waited"
                );
            }
            return;
        }
        end(current);
    }

    /// The broker accepts messages again that it has blocked.
    pub(crate) fn unblocked(&self) {
        if let Some(ongoing) = &mut *self.current() {
            ongoing.is_back = true;
        }
    }

    /// No event is due for the relay.
    pub(crate) fn nothing_due(&self) {
        let mut current = self.current();
        let Some(ongoing) = &mut *current else { return };
        if ongoing.is_back {
            end(current);
        } else {
            // Another relay has published the events that waited.
            ongoing.has_backlog = false;
        }
    }

    /// A consumer has subscribed, or the topology was declared. This ends an outage that did not stop the relay.
    pub(crate) fn reachable(&self) {
        let current = self.current();
        if current.as_ref().is_some_and(|ongoing| !ongoing.has_backlog) {
            end(current);
        }
    }

    /// The outage, unless the broker accepts messages again.
    pub(crate) fn ongoing(&self, now: DateTime<Utc>) -> Option<Outage> {
        let current = self.current();
        let ongoing = current.as_ref().filter(|ongoing| !ongoing.is_back)?;
        let lasted = TimeDelta::from_std(ongoing.since.elapsed()).unwrap_or_default();
        Some(Outage { since: now - lasted, error: ongoing.error.clone() })
    }

    fn current(&self) -> MutexGuard<'_, Option<Ongoing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(mut current: MutexGuard<'_, Option<Ongoing>>) {
    let Some(ended) = current.take() else { return };
    drop(current);
    info!(
        code = "broker.outage.ends",
        seconds = ended.seconds(),
        published = ended.published,
        "[Broker] outage ended after {} s; {} events published since it began",
        ended.seconds(),
        ended.published
    );
}
