//! Dead letters.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{
    Changed, DeadLetter, DeadLetterFilter, DeadLetterQueries, DeadLetterRepo, DeadLetterStatus, Decision,
    Numbered, StoreError,
};

use super::limited;
use super::locks::Lock;
use super::outbox_tables::{OutboxRows as _, OutboxTables};
use super::statement::{Tables, next};
use super::tables::Row;
use super::unit::MemoryUnit;

#[derive(Debug, Clone)]
pub(super) struct DeadLetterRow {
    id: i64,
    letter: DeadLetter,
}

#[derive(Default)]
pub(super) struct DeadLetterIndex {
    by_id: BTreeMap<i64, (String, String)>,
}

impl Row<OutboxTables> for DeadLetterRow {
    type Key = (String, String);
    type Index = DeadLetterIndex;

    fn key(&self) -> (String, String) {
        (self.letter.queue.clone(), self.letter.key.clone())
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
        self.read_outbox(|statement| statement.dead_letters().get(&key).map(|row| row.letter.clone())).await
    }

    async fn dead_letters_page(
        &mut self,
        filter: &DeadLetterFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        self.read_outbox(|statement| {
            let letters = statement.dead_letters();
            let newest_first = letters.select(|table| {
                let ids = table.index.by_id.range(..before.unwrap_or(i64::MAX)).rev();
                ids.filter_map(|(id, key)| Some((Reverse(*id), table.get(key)?)))
            });
            newest_first
                .filter(|row| passes(filter, &row.letter))
                .take(limited(limit))
                .map(|row| Numbered { id: row.id, effect: row.letter.clone() })
                .collect()
        })
        .await
    }

    async fn dead_letters_of(&mut self, keys: &[String]) -> Result<Vec<DeadLetter>, StoreError> {
        self.read_outbox(|statement| {
            let letters = statement.dead_letters();
            let in_order = letters.select(|table| {
                table.index.by_id.iter().filter_map(|(id, key)| Some((*id, table.get(key)?)))
            });
            in_order.map(|row| &row.letter).filter(|letter| keys.contains(&letter.key)).cloned().collect()
        })
        .await
    }

    async fn undecided_dead_letters(&mut self, tenant: Option<TenantId>) -> Result<u64, StoreError> {
        self.read_outbox(|statement| {
            let letters = statement.dead_letters();
            let undecided = letters
                .all()
                .map(|row| &row.letter)
                .filter(|letter| tenant.is_none_or(|tenant| letter.tenant == tenant))
                .filter(|letter| match letter.status {
                    DeadLetterStatus::Open | DeadLetterStatus::Replaying => true,
                    DeadLetterStatus::Replayed | DeadLetterStatus::Discarded => false,
                });
            undecided.fold(0, |count, _| count + 1)
        })
        .await
    }
}

fn passes(filter: &DeadLetterFilter, letter: &DeadLetter) -> bool {
    filter.tenant.is_none_or(|tenant| letter.tenant == tenant)
        && filter.queue.as_ref().is_none_or(|queue| letter.queue == *queue)
        && (filter.event_type.is_none() || letter.event_type == filter.event_type)
        && filter.status.is_none_or(|status| letter.status == status)
}

#[async_trait]
impl<X: Tables> DeadLetterRepo for MemoryUnit<X> {
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        let letters: Vec<DeadLetter> = letters.iter().map(DeadLetter::storable).collect();
        let locks =
            letters.iter().map(|letter| Lock::DeadLetter(letter.queue.clone(), letter.key.clone())).collect();
        self.write_outbox(locks, |statement| {
            for letter in &letters {
                let parked =
                    statement.dead_letters().get(&(letter.queue.clone(), letter.key.clone())).cloned();
                let row = match parked {
                    None => {
                        let id = next(&mut statement.sequences.dead_letters);
                        let status = DeadLetterStatus::Open;
                        let letter = DeadLetter { status, decided_at: None, note: None, ..letter.clone() };
                        DeadLetterRow { id, letter }
                    }
                    Some(mut row) => match row.letter.status {
                        DeadLetterStatus::Open => continue,
                        DeadLetterStatus::Replaying
                        | DeadLetterStatus::Replayed
                        | DeadLetterStatus::Discarded => {
                            row.letter.status = DeadLetterStatus::Open;
                            row.letter.reason.clone_from(&letter.reason);
                            row.letter.died_at = letter.died_at;
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
            let letter = statement.dead_letters().get(&key).cloned();
            let Some(mut row) = letter.filter(|row| decision.from.contains(&row.letter.status)) else {
                return Ok(Changed::None);
            };
            row.letter.status = decision.to;
            row.letter.decided_at = Some(decision.at);
            row.letter.note = decision.note.clone().or(row.letter.note);
            statement.own.dead_letters.put(row);
            Ok(Changed::One)
        })
        .await
    }
}
