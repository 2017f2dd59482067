//! The processing history of events.

use async_trait::async_trait;
use handover_events::EventId;
use handover_outbox::ports::{HistoryEntry, HistoryQueries, HistoryRepo, StoreError};

use crate::dialect::{MAX_ROWS, padded, placeholders};
use crate::session::Session;
use crate::table::{Table, table};
use crate::value::Value;

table! {
    HistoryTable("outbox_history" by "id"), read row as HistoryEntry, write entry as &'a HistoryEntry;
    insert {
        tenant: id("tenant_id" = entry.tenant.get()),
        event_id: named("event_id" = &entry.event_id),
        kind: named("kind" = entry.kind.as_str()),
        consumer: opt_string("consumer" = &entry.consumer),
        attempts: count("attempts" = entry.attempts),
        detail: opt_string("detail" = &entry.detail),
        at: time("create_time" = entry.at),
    }
}

#[async_trait]
impl HistoryQueries for Session {
    async fn history_of(&mut self, events: &[EventId]) -> Result<Vec<HistoryEntry>, StoreError> {
        let mut found = Vec::new();
        for events in events.chunks(MAX_ROWS) {
            let events = padded(events);
            let sql = format!(
                "SELECT id, {} FROM outbox_history {} WHERE event_id IN ({})",
                HistoryTable::COLUMNS,
                self.dialect.index("idx_outbox_history"),
                placeholders(events.len())
            );
            for row in &self.fetch(&sql, events.iter().map(Value::from).collect()).await? {
                found.push(HistoryTable::numbered(row)?);
            }
        }
        // Removes duplicates: an event id that occurs in two chunks is read twice.
        found.sort_by_key(|row| row.id);
        found.dedup_by_key(|row| row.id);
        Ok(found.into_iter().map(|row| row.effect).collect())
    }
}

#[async_trait]
impl HistoryRepo for Session {
    async fn add_history(&mut self, entries: &[HistoryEntry]) -> Result<(), StoreError> {
        self.insert_into::<HistoryTable>(HistoryTable::rows(entries), "").await
    }
}
