//! A queue: its ready messages in order.
//!
//! **Invariant:** positions only increase, and a message keeps its position in a queue: a requeued message returns to its
//! original position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::Message;
use handover_outbox::topology::{QueueSpec, topic_matches};
use tokio::sync::Notify;

/// A message in a queue: ready, or delivered and not yet settled.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) message: Arc<Message>,
    pub(super) redelivered: bool,
    /// The last queue in which the message was dead-lettered by a rejection.
    pub(super) died_in: Option<String>,
    /// The queues in which the message expired since it was last published or rejected, to detect dead-letter cycles.
    pub(super) expired_in: Vec<String>,
    pub(super) expires_at: Option<DateTime<Utc>>,
    /// Time at which the message entered its queue.
    pub(super) entered_at: Option<DateTime<Utc>>,
}

impl Stored {
    pub(super) fn new(message: Arc<Message>) -> Stored {
        Stored {
            message,
            redelivered: false,
            died_in: None,
            expired_in: Vec::new(),
            expires_at: None,
            entered_at: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) spec: QueueSpec,
    pub(super) bindings: BTreeSet<String>,
    /// Notifies subscriptions when more messages may be available to them.
    pub(super) changed: Arc<Notify>,
    ready: BTreeMap<u64, Stored>,
    next_position: u64,
}

impl Queue {
    pub(super) fn new(spec: QueueSpec) -> Queue {
        let bindings = spec.bindings.iter().cloned().collect();
        Queue { spec, bindings, changed: Arc::default(), ready: BTreeMap::new(), next_position: 0 }
    }

    pub(super) fn is_bound_to(&self, key: &str) -> bool {
        self.bindings.iter().any(|pattern| topic_matches(pattern, key))
    }

    /// Adds a message at the tail and sets its expiry.
    pub(super) fn enter(&mut self, mut stored: Stored, now: DateTime<Utc>) {
        stored.expires_at =
            self.spec.ttl.and_then(|ttl| now.checked_add_signed(TimeDelta::from_std(ttl).ok()?));
        stored.entered_at = Some(now);
        self.ready.insert(self.next_position, stored);
        self.next_position += 1;
        self.changed.notify_waiters();
    }

    /// Requeues an unsettled message at its original position, with its original expiry.
    pub(super) fn requeue(&mut self, position: u64, stored: Stored) {
        self.ready.insert(position, Stored { redelivered: true, ..stored });
        self.changed.notify_waiters();
    }

    /// Removes the message at the head.
    pub(super) fn take(&mut self) -> Option<(u64, Stored)> {
        self.ready.pop_first()
    }

    /// Removes the message at the head if it has expired. As in RabbitMQ, messages expire only at the head of a queue.
    pub(super) fn take_expired(&mut self, now: DateTime<Utc>) -> Option<Stored> {
        let head = self.ready.first_entry()?;
        head.get().expires_at.is_some_and(|at| at <= now).then(|| head.remove())
    }

    /// Expiry of the message at the head.
    pub(super) fn next_expiry(&self) -> Option<DateTime<Utc>> {
        self.ready.first_key_value()?.1.expires_at
    }

    /// Time at which the message at the head entered the queue.
    pub(super) fn oldest_ready(&self) -> Option<DateTime<Utc>> {
        self.ready.first_key_value()?.1.entered_at
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.ready).len()
    }
}
