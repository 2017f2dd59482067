//! The processing history of events.

use async_trait::async_trait;
use handover_events::EventId;
use handover_outbox::ports::{HistoryEntry, HistoryQueries, HistoryRepo, Numbered, StoreError};

use crate::dialect::{MAX_ROWS, padded, placeholders};
use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

const COLUMNS: &str = "tenant_id, event_id, kind, consumer, attempts, detail, create_time";
const INSERTED: usize = 7;

fn entry(row: &Row) -> Result<Numbered<HistoryEntry>, StoreError> {
    let row = row.of("outbox_history", "id");
    let effect = HistoryEntry {
        tenant: row.id("tenant_id")?,
        event_id: row.named("event_id")?,
        kind: row.named("kind")?,
        consumer: row.opt_string("consumer")?,
        attempts: row.count("attempts")?,
        detail: row.opt_string("detail")?,
        at: row.time("create_time")?,
    };
    Ok(Numbered { id: row.int("id")?, effect })
}

#[async_trait]
impl HistoryQueries for Session {
    async fn history_of(&mut self, events: &[EventId]) -> Result<Vec<HistoryEntry>, StoreError> {
        let mut found = Vec::new();
        for events in events.chunks(MAX_ROWS) {
            let events = padded(events);
            let sql = format!(
                "SELECT id, {COLUMNS} FROM outbox_history {} WHERE event_id IN ({})",
                self.dialect.index("idx_outbox_history"),
                placeholders(events.len())
            );
            for row in &self.fetch(&sql, events.iter().map(Value::from).collect()).await? {
                found.push(entry(row)?);
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
        let mut rows = Vec::with_capacity(entries.len() * INSERTED);
        for entry in entries {
            rows.extend(values![
                entry.tenant.get(),
                &entry.event_id,
                entry.kind.as_str(),
                &entry.consumer,
                entry.attempts,
                &entry.detail,
                entry.at,
            ]);
        }
        self.insert(&format!("INSERT INTO outbox_history ({COLUMNS})"), INSERTED, rows, "").await?;
        Ok(())
    }
}
