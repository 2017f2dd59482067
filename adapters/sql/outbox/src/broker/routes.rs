//! Routing of messages to queues.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};
use handover_outbox::ports::Route;
use handover_outbox::topology::topic_matches;

use crate::table::table;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueArguments {
    pub(super) ttl_ms: Option<i64>,
    pub(super) dead_letter_key: Option<String>,
}

table! {
    pub(super) QueueTable("outbox_broker_queues" by "queue"),
    read row as QueueArguments, write new as (&'a str, &'a QueueArguments);
    insert {
        ttl_ms: (row.opt_int("ttl_ms"))("queue" = new.0, "ttl_ms" = new.1.ttl_ms),
        dead_letter_key: opt_string("dead_letter_key" = &new.1.dead_letter_key),
    }
}

/// A snapshot of the queues and bindings.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) read_at: DateTime<Utc>,
    pub(super) queues: BTreeMap<String, QueueArguments>,
    pub(super) bindings: Vec<(String, String)>,
}

impl Routes {
    /// The queues to which a message with this route is delivered.
    pub(super) fn target_queues<'r>(&'r self, route: &'r Route) -> Vec<&'r str> {
        match route {
            Route::Topic(key) => self.targets(key),
            Route::Queue(queue) => {
                self.queues.get_key_value(queue).map(|(name, _)| name.as_str()).into_iter().collect()
            }
        }
    }

    /// The queues bound to this routing key, each once.
    pub(super) fn targets(&self, key: &str) -> Vec<&str> {
        let mut targets: Vec<&str> = self
            .bindings
            .iter()
            .filter(|(_, pattern)| topic_matches(pattern, key))
            .map(|(queue, _)| queue.as_str())
            .collect();
        targets.dedup();
        targets
    }

    /// The expiry time of a message that is inserted into this queue now; `None` if the queue has no TTL.
    pub(super) fn expiry(&self, queue: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ttl = self.queues.get(queue)?.ttl_ms?;
        now.checked_add_signed(Duration::milliseconds(ttl))
    }

    /// The routing key for rejected and expired messages of this queue.
    pub(super) fn dead_letter_key(&self, queue: &str) -> Option<&str> {
        self.queues.get(queue)?.dead_letter_key.as_deref()
    }
}
