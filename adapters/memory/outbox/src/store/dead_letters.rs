//! Dead letters.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{
    Changed, DeadLetter, DeadLetterFilter, DeadLetterQueries, DeadLetterRepo, DeadLetterStatus, Decision,
    Numbered, StoreError,
};

use super::locks::Lock;
use super::outbox_tables::{OutboxRows as _, OutboxTables};
use super::rows::DeadLetterRow;
use super::statement::{Tables, next};
use super::tables::{Row, limited};
use super::unit::MemoryUnit;

#[derive(Default)]
pub(super) struct DeadLetterIndex {
    by_id: BTreeMap<i64, (String, String)>,
}

impl Row<OutboxTables> for DeadLetterRow {
    type Key = (String, String);
    type Index = DeadLetterIndex;

    fn key(&self) -> (String, String) {
        (self.dead_letter.queue.clone(), self.dead_letter.key.clone())
    }

    fn enter(&self, index: &mut DeadLetterIndex) {
        index.by_id.insert(self.id, self.key());
    }

    fn leave(&self, index: &mut DeadLetterIndex) {
        index.by_id.remove(&self.id);
    }
}

#[async_trait]
impl<X: Tables> DeadLetterQueries for MemoryUnit<X> {
    async fn dead_letter(&mut self, queue: &str, key: &str) -> Result<Option<DeadLetter>, StoreError> {
        let key = (queue.to_owned(), key.to_owned());
        self.read_outbox(|statement| statement.dead_letters().get(&key).map(|row| row.dead_letter.clone()))
            .await
    }

    async fn dead_letters_page(
        &mut self,
        filter: &DeadLetterFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        self.read_outbox(|statement| {
            let dead_letters = statement.dead_letters();
            let newest_first = dead_letters.select(|table| {
                let ids = table.index.by_id.range(..before.unwrap_or(i64::MAX)).rev();
                ids.filter_map(|(id, key)| Some((Reverse(*id), table.get(key)?)))
            });
            newest_first
                .filter(|row| passes(filter, row))
                .take(limited(limit))
                .map(|row| Numbered { id: row.id, effect: row.dead_letter.clone() })
                .collect()
        })
        .await
    }

    async fn dead_letters_after(
        &mut self,
        filter: &DeadLetterFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        self.read_outbox(|statement| {
            let dead_letters = statement.dead_letters();
            let oldest_first = dead_letters.select(|table| {
                let ids = table.index.by_id.range(after.map_or(i64::MIN, |id| id.saturating_add(1))..);
                ids.filter_map(|(id, key)| Some((*id, table.get(key)?)))
            });
            oldest_first
                .filter(|row| passes(filter, row))
                .take(limited(limit))
                .map(|row| Numbered { id: row.id, effect: row.dead_letter.clone() })
                .collect()
        })
        .await
    }

    async fn dead_letters_of(&mut self, keys: &[String]) -> Result<Vec<DeadLetter>, StoreError> {
        self.read_outbox(|statement| {
            let dead_letters = statement.dead_letters();
            let in_order = dead_letters.select(|table| {
                table.index.by_id.iter().filter_map(|(id, key)| Some((*id, table.get(key)?)))
            });
            in_order
                .map(|row| &row.dead_letter)
                .filter(|dead_letter| keys.contains(&dead_letter.key))
                .cloned()
                .collect()
        })
        .await
    }

    async fn undecided_dead_letters(
        &mut self,
        tenant: Option<TenantId>,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        self.read_outbox(|statement| {
            let dead_letters = statement.dead_letters();
            let undecided = dead_letters
                .all()
                .map(|row| &row.dead_letter)
                .filter(|dead_letter| tenant.is_none_or(|tenant| dead_letter.tenant == tenant))
                .filter(|dead_letter| match dead_letter.status {
                    DeadLetterStatus::Open | DeadLetterStatus::Replaying => true,
                    DeadLetterStatus::Replayed | DeadLetterStatus::Discarded => false,
                });
            let mut by_queue = BTreeMap::new();
            for dead_letter in undecided {
                *by_queue.entry(dead_letter.queue.clone()).or_insert(0) += 1;
            }
            by_queue.into_iter().collect()
        })
        .await
    }
}

fn passes(filter: &DeadLetterFilter, DeadLetterRow { id, dead_letter }: &DeadLetterRow) -> bool {
    filter.above_id.is_none_or(|above| *id > above)
        && filter.tenant.is_none_or(|tenant| dead_letter.tenant == tenant)
        && filter.key.as_ref().is_none_or(|key| dead_letter.key == *key)
        && filter.queue.as_ref().is_none_or(|queue| dead_letter.queue == *queue)
        && (filter.event_type.is_none() || dead_letter.event_type == filter.event_type)
        && filter.status.is_none_or(|status| dead_letter.status == status)
        && filter.from.is_none_or(|from| dead_letter.died_at >= from)
        && filter.to.is_none_or(|to| dead_letter.died_at < to)
}

#[async_trait]
impl<X: Tables> DeadLetterRepo for MemoryUnit<X> {
    async fn park(&mut self, dead_letters: &[DeadLetter]) -> Result<(), StoreError> {
        let dead_letters: Vec<DeadLetter> = dead_letters.iter().map(DeadLetter::storable).collect();
        let locks = dead_letters
            .iter()
            .map(|dead_letter| Lock::DeadLetter(dead_letter.queue.clone(), dead_letter.key.clone()))
            .collect();
        self.write_outbox(locks, |statement| {
            for dead_letter in &dead_letters {
                let parked = statement
                    .dead_letters()
                    .get(&(dead_letter.queue.clone(), dead_letter.key.clone()))
                    .cloned();
                let row = match parked {
                    None => {
                        let id = next(&mut statement.sequences.dead_letters);
                        let status = DeadLetterStatus::Open;
                        let dead_letter =
                            DeadLetter { status, decided_at: None, note: None, ..dead_letter.clone() };
                        DeadLetterRow { id, dead_letter }
                    }
                    Some(mut row) => match row.dead_letter.status {
                        DeadLetterStatus::Open => continue,
                        DeadLetterStatus::Replaying
                        | DeadLetterStatus::Replayed
                        | DeadLetterStatus::Discarded => {
                            row.dead_letter.status = DeadLetterStatus::Open;
                            row.dead_letter.reason.clone_from(&dead_letter.reason);
                            row.dead_letter.died_at = dead_letter.died_at;
                            row
                        }
                    },
                };
                statement.own.dead_letters.put(row);
            }
            Ok(())
        })
        .await
    }

    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError> {
        let key = (decision.queue.clone(), decision.key.clone());
        self.write_outbox(vec![Lock::DeadLetter(key.0.clone(), key.1.clone())], |statement| {
            let dead_letter = statement.dead_letters().get(&key).cloned();
            let Some(mut row) = dead_letter.filter(|row| decision.from.contains(&row.dead_letter.status))
            else {
                return Ok(Changed::None);
            };
            row.dead_letter.status = decision.to;
            row.dead_letter.decided_at = Some(decision.at);
            row.dead_letter.note = decision.note.clone().or(row.dead_letter.note);
            statement.own.dead_letters.put(row);
            Ok(Changed::One)
        })
        .await
    }
}
