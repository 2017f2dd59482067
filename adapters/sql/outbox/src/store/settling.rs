//! Settling of confirmed rows, and the fence.

use chrono::{DateTime, Utc};
use handover_events::{EventId, PartitionSet};
use handover_outbox::ports::{OwnedPartition, RelayId, StoreError};

use super::leases::partition;
use crate::dialect::{Dialect, Joining, MAX_ROWS, padded, placeholders};
use crate::session::Session;
use crate::value::{Value, values};

/// Maximum number of events of a statement: more than a window usually has.
pub(super) const MAX_EVENTS: usize = 4 * MAX_ROWS;

/// The statement that changes the pending rows of these events to `SENT`.
pub(super) fn sent(dialect: &dyn Dialect, events: &[&EventId], now: DateTime<Utc>) -> (String, Vec<Value>) {
    let events = padded(events);
    // Without the index hint and `unindexed`, SQLite and PostgreSQL would scan all pending rows.
    let sql = format!(
        "UPDATE outbox_events {by_event} SET status = 'SENT', next_retry_time = NULL, sent_time = ?, update_time = ? \
         WHERE event_id IN ({}) AND {status} IN ('NEW', 'RETRY')",
        placeholders(events.len()),
        by_event = dialect.index("uk_event_id"),
        status = dialect.unindexed("status"),
    );
    let values = values![now, now].into_iter().chain(events.into_iter().map(Value::from)).collect();
    (sql, values)
}

/// The query for the partitions that the relay still owns in the epoch given with the partition.
fn owned(relay: &RelayId, partitions: &[OwnedPartition]) -> (String, Vec<Value>) {
    let partitions = padded(partitions);
    let sql = format!(
        "SELECT partition_no FROM outbox_partitions WHERE owner = ? AND partition_no IN ({}) \
         AND epoch = CASE partition_no {}END",
        placeholders(partitions.len()),
        "WHEN ? THEN ? ".repeat(partitions.len()),
    );
    let numbers = partitions.iter().map(|owned| Value::from(owned.partition.number()));
    let epochs = partitions.iter().flat_map(|owned| values![owned.partition.number(), owned.epoch]);
    (sql, values![&relay.0].into_iter().chain(numbers).chain(epochs).collect())
}

impl Session {
    /// The fence, and [`sent`] for the rows of the partitions that it returns, as one statement; `None` on an engine that
    /// cannot join them. MySQL cannot: an `UPDATE` returns no rows, and does not lock the partitions before the events.
    pub(super) async fn fenced_sent(
        &mut self,
        relay: &RelayId,
        partitions: &[OwnedPartition],
        events: &[&EventId],
        now: DateTime<Utc>,
    ) -> Result<Option<PartitionSet>, StoreError> {
        let (owned, owned_values) = owned(relay, partitions);
        let (sent, sent_values) = sent(self.dialect, events, now);
        let (sql, values) = match self.dialect.joining() {
            Joining::None => return Ok(None),
            // The engine has one writer: no other relay takes a partition between the statements.
            Joining::Script => (
                format!("{owned}; {sent} AND partition_no IN ({owned})"),
                [owned_values.clone(), sent_values, owned_values].concat(),
            ),
            // The locks are taken as by the fence alone, and only rows of locked partitions are changed.
            Joining::CommonTableExpressions => (
                format!(
                    "WITH owned AS ({owned} ORDER BY partition_no {lock}), \
                     sent AS ({sent} AND partition_no IN (SELECT partition_no FROM owned)) SELECT partition_no FROM owned",
                    lock = self.dialect.for_update()
                ),
                [owned_values, sent_values].concat(),
            ),
        };
        self.fetch(&sql, values).await?.iter().map(partition).collect::<Result<_, _>>().map(Some)
    }
}
