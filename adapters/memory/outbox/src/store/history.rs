//! The history of outbox rows.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::EventId;
use handover_outbox::ports::{HistoryEntry, HistoryQueries, HistoryRepo, Numbered, StoreError};

use super::outbox_tables::{OutboxRows as _, OutboxTables};
use super::statement::{Tables, next};
use super::tables::Row;
use super::unit::MemoryUnit;

impl Row<OutboxTables> for Numbered<HistoryEntry> {
    type Key = i64;
    /// Row ids by event.
    type Index = BTreeMap<EventId, BTreeSet<i64>>;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut Self::Index) {
        index.entry(self.effect.event_id.clone()).or_default().insert(self.id);
    }
}

#[async_trait]
impl<X: Tables> HistoryQueries for MemoryUnit<X> {
    async fn history_of(&mut self, events: &[EventId]) -> Result<Vec<HistoryEntry>, StoreError> {
        self.read_outbox(|statement| {
            let rows = statement.history();
            let in_order = rows.select(|table| {
                let of = |event: &EventId| table.index.get(event).into_iter().flatten().copied();
                let ids: BTreeSet<i64> = events.iter().flat_map(of).collect();
                ids.into_iter().filter_map(|id| Some((id, table.get(&id)?)))
            });
            in_order.map(|row| row.effect.clone()).collect()
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> HistoryRepo for MemoryUnit<X> {
    async fn add_history(&mut self, entries: &[HistoryEntry]) -> Result<(), StoreError> {
        self.write_outbox(Vec::new(), |statement| {
            for entry in entries {
                let id = next(&mut statement.sequences.history);
                statement.own.history.put(Numbered { id, effect: entry.clone() });
            }
            Ok(())
        })
        .await
    }
}
