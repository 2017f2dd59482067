//! Messages as rows: inserting them into a queue, and moving them to other queues.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_outbox::ports::{Delivery, DeliveryTag, Message, StoreError};

use super::routes::Routes;
use crate::dialect::{MAX_ROWS, padded, placeholders};
use crate::row::Fields;
use crate::session::Session;
use crate::table::{Table as _, table};
use crate::value::Value;

pub(super) const COLUMNS: &str = MessageTable::COLUMNS;

/// A message to be inserted into a queue.
pub(super) struct NewMessage<'a> {
    pub(super) queue: &'a str,
    pub(super) message: &'a Message,
    pub(super) enqueued_at: DateTime<Utc>,
    pub(super) expiry: Option<DateTime<Utc>>,
    pub(super) died_in: Option<&'a str>,
}

table! {
    pub(super) MessageTable("outbox_broker_messages" by "id"),
    read row as Queued, write new as NewMessage<'a>;
    insert {
        queue: string("queue" = new.queue),
        message: (message(row))(
            "message_id" = &new.message.message_id,
            "kind" = &new.message.kind,
            "correlation_id" = &new.message.correlation_id,
            "headers" = serde_json::to_string(&new.message.headers).unwrap_or_else(|_| "{}".to_owned()),
            "body" = &new.message.body,
            "expires_at" = new.expiry,
            "enqueued_at" = new.enqueued_at
        ),
        died_in: opt_string("died_in" = new.died_in),
    }
    read { id: int("id"), redelivered: flag("redelivered") }
}

pub(super) struct Queued {
    pub(super) id: i64,
    pub(super) queue: String,
    pub(super) redelivered: bool,
    pub(super) died_in: Option<String>,
    pub(super) message: Message,
}

impl Queued {
    pub(super) fn delivery(self) -> Delivery {
        Delivery {
            tag: DeliveryTag(self.id.unsigned_abs()),
            redelivered: self.redelivered,
            died_in: self.died_in,
            message: self.message,
        }
    }
}

fn message(row: Fields<'_>) -> Result<Message, StoreError> {
    let headers = row.text("headers")?;
    Ok(Message {
        message_id: row.opt_string("message_id")?,
        kind: row.opt_string("kind")?,
        correlation_id: row.opt_string("correlation_id")?,
        // A damaged value must not stop the queue: a consumer needs the body and the id.
        headers: serde_json::from_str(headers).unwrap_or_default(),
        body: row.string("body")?,
    })
}

/// Reason why messages leave a queue without an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Rejected,
    Expired,
}

/// Target queues of moved messages, and the earliest expiry of the messages there.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) queues: BTreeSet<String>,
    pub(super) earliest_expiry: Option<DateTime<Utc>>,
}

/// Moves messages to the queues that are bound to the dead-letter key of their queue. A message without such a queue is
/// deleted. MUST run in a transaction.
pub(super) async fn move_by_dead_letter_key(
    session: &mut Session,
    routes: &Routes,
    messages: &[Queued],
    cause: Cause,
    now: DateTime<Utc>,
) -> Result<Moved, StoreError> {
    let mut moved = Moved::default();
    let mut rows = Vec::new();
    for queued in messages {
        let Some(key) = routes.dead_letter_key(&queued.queue) else { continue };
        let targets = routes.targets(key);
        if targets.is_empty() {
            tracing::warn!(
                code = "broker.dead-letter-dropped",
                queue = queued.queue,
                key,
                "broker: dead letter dropped; no queue is bound to its key"
            );
        }
        let died_in = match cause {
            Cause::Rejected => Some(queued.queue.as_str()),
            Cause::Expired => queued.died_in.as_deref(),
        };
        for target in targets {
            let expiry = routes.expiry(target, now);
            let new =
                NewMessage { queue: target, message: &queued.message, enqueued_at: now, expiry, died_in };
            rows.extend(MessageTable::values(new));
            moved.queues.insert(target.to_owned());
            moved.earliest_expiry = earlier(moved.earliest_expiry, expiry);
        }
    }
    session.insert_into::<MessageTable>(rows, "").await?;
    for messages in messages.chunks(MAX_ROWS) {
        let ids = padded(&messages.iter().map(|queued| queued.id).collect::<Vec<_>>());
        let sql = format!("DELETE FROM outbox_broker_messages WHERE id IN ({})", placeholders(ids.len()));
        session.execute(&sql, ids.into_iter().map(Value::from).collect()).await?;
    }
    Ok(moved)
}

pub(super) fn earlier(left: Option<DateTime<Utc>>, right: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    }
}
