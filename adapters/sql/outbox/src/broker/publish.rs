//! Publishing: one transaction per window.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::{BrokerError, Outgoing, PublishOutcome, Route, StoreError};

use super::inner::{Inner, broker_error, lock};
use super::messages::{MessageTable, NewMessage, earlier};
use super::upkeep::POLL_INTERVAL;
use crate::table::Table as _;
use crate::value::Value;

impl Inner {
    pub(super) async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let mut routes = self.routes().await.map_err(broker_error)?;
        if window.iter().any(|outgoing| routes.target_queues(outgoing.route()).is_empty()) {
            routes = self.read_routes().await.map_err(broker_error)?;
        }
        let now = self.now();
        let mut rows = Vec::new();
        let mut queues = BTreeSet::new();
        let mut next_expiry = None;
        let mut routed = Vec::with_capacity(window.len());
        for outgoing in &window {
            let targets = routes.target_queues(outgoing.route());
            routed.push(!targets.is_empty());
            for queue in targets.into_iter().filter(|queue| !outgoing.excluded().contains(*queue)) {
                let expiry = routes.expiry(queue, now);
                let message = outgoing.message();
                let new = NewMessage { queue, message, enqueued_at: now, expiry, died_in: None };
                rows.extend(MessageTable::values(new));
                queues.insert(queue.to_owned());
                next_expiry = earlier(next_expiry, expiry);
            }
        }
        let outcome = if rows.is_empty() { Ok(()) } else { self.enqueue(rows).await };
        if outcome.is_ok() {
            self.schedule_expiry(next_expiry);
            queues.iter().for_each(|queue| self.notify_queue(queue));
        }
        outcomes(window, &routed, outcome)
    }

    async fn enqueue(&self, rows: Vec<Value>) -> Result<(), StoreError> {
        let dialect = self.store.dialect();
        let statements = dialect.insert(MessageTable::INSERT, MessageTable::INSERTED, rows, "");
        // A single statement is atomic without an explicit transaction.
        let is_atomic = statements.len() == 1;
        let session = if is_atomic { self.store.writing().await } else { self.store.transaction().await };
        let mut session = session?;
        for (sql, values) in statements {
            session.execute(&sql, values).await?;
        }
        if is_atomic { Ok(()) } else { session.commit_now().await }
    }

    /// Records when a message that was inserted into a queue expires.
    pub(super) fn schedule_expiry(&self, expiry: Option<DateTime<Utc>>) {
        let Some(expiry) = expiry else { return };
        {
            let mut next = lock(&self.next_expiry);
            *next = earlier(*next, Some(expiry));
        }
        // Waiting consumers poll every `POLL_INTERVAL`. They are woken for a message that expires before the next poll.
        if expiry - self.now() < TimeDelta::from_std(POLL_INTERVAL).unwrap_or_default() {
            self.store.notifier().notify_local_queues();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the commit of the messages is their publisher confirm")]
fn outcomes(
    window: Vec<Outgoing>,
    routed: &[bool],
    outcome: Result<(), StoreError>,
) -> Result<Vec<PublishOutcome>, BrokerError> {
    let unknown = match outcome {
        Ok(()) => None,
        Err(error @ StoreError::CommitUnknown(_)) => Some(error.to_string()),
        Err(
            error @ (StoreError::Conflict { .. }
            | StoreError::Transient(_)
            | StoreError::Unavailable(_)
            | StoreError::Corrupt { .. }
            | StoreError::IdInUse { .. }
            | StoreError::Backend(_)),
        ) => return Err(broker_error(error)),
    };
    let publish_outcome = |(outgoing, is_routed): (Outgoing, &bool)| match (is_routed, &unknown) {
        (false, _) => {
            let reason = match outgoing.route() {
                Route::Topic(key) => format!("no queue is bound to {key}"),
                Route::Queue(queue) => format!("queue {queue} does not exist"),
            };
            outgoing.returned(reason)
        }
        (true, Some(why)) => outgoing.unknown(why.as_str()),
        (true, None) => outgoing.confirmed(),
    };
    Ok(window.into_iter().zip(routed).map(publish_outcome).collect())
}
