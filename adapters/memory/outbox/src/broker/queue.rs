//! One queue: what is ready, in order.
//!
//! **Invariant:** positions only grow, and a message keeps its own while it stays in the queue: one that is returned
//! stands again where it stood.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::Message;
use handover_outbox::topology::{QueueSpec, topic_matches};
use tokio::sync::Notify;

/// A message in a queue or handed out from one.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) message: Arc<Message>,
    pub(super) redelivered: bool,
    /// The queue in which it died last.
    pub(super) died_in: Option<String>,
    /// The queues in which it expired since it was last published or rejected: the way of a cycle.
    pub(super) expired_in: Vec<String>,
    pub(super) expires_at: Option<DateTime<Utc>>,
}

impl Stored {
    pub(super) fn new(message: Arc<Message>) -> Stored {
        Stored { message, redelivered: false, died_in: None, expired_in: Vec::new(), expires_at: None }
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) spec: QueueSpec,
    pub(super) bindings: BTreeSet<String>,
    /// Rung when a consumer may find more than before.
    pub(super) changed: Arc<Notify>,
    ready: BTreeMap<u64, Stored>,
    next_position: u64,
}

impl Queue {
    pub(super) fn new(spec: QueueSpec) -> Queue {
        let bindings = spec.bindings.iter().cloned().collect();
        Queue { spec, bindings, changed: Arc::default(), ready: BTreeMap::new(), next_position: 0 }
    }

    pub(super) fn takes(&self, key: &str) -> bool {
        self.bindings.iter().any(|pattern| topic_matches(pattern, key))
    }

    /// Adds a message at the tail.
    pub(super) fn enter(&mut self, mut stored: Stored, now: DateTime<Utc>) {
        stored.expires_at =
            self.spec.ttl.and_then(|ttl| now.checked_add_signed(TimeDelta::from_std(ttl).ok()?));
        self.ready.insert(self.next_position, stored);
        self.next_position += 1;
        self.changed.notify_waiters();
    }

    /// Puts an unsettled message back where it stood. When it expires stays as it was.
    pub(super) fn put_back(&mut self, position: u64, stored: Stored) {
        self.ready.insert(position, Stored { redelivered: true, ..stored });
        self.changed.notify_waiters();
    }

    /// Takes the message at the head.
    pub(super) fn take(&mut self) -> Option<(u64, Stored)> {
        self.ready.pop_first()
    }

    /// Takes the message at the head if it has expired. Behind one that has not, none expires (as in RabbitMQ).
    pub(super) fn take_expired(&mut self, now: DateTime<Utc>) -> Option<Stored> {
        let head = self.ready.first_entry()?;
        head.get().expires_at.is_some_and(|at| at <= now).then(|| head.remove())
    }

    /// When the head expires.
    pub(super) fn next_expiry(&self) -> Option<DateTime<Utc>> {
        self.ready.first_key_value()?.1.expires_at
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.ready).len()
    }
}
