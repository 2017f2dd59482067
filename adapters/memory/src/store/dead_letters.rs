//! Dead letters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_application::ports::{
    DeadLetter, DeadLetterQueries, DeadLetterRepo, DeadLetterStatus, StoreError,
};

use super::limited;
use super::locks::Lock;
use super::statement::next;
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

impl Row for DeadLetterRow {
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
impl DeadLetterQueries for MemoryUnit {
    async fn dead_letter(&mut self, queue: &str, key: &str) -> Result<Option<DeadLetter>, StoreError> {
        let key = (queue.to_owned(), key.to_owned());
        self.read(|statement| statement.dead_letters().get(&key).map(|row| row.letter.clone())).await
    }

    async fn dead_letters(&mut self, queue: Option<&str>, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.read(|statement| {
            let letters = statement.dead_letters();
            let in_order = letters.select(|table| {
                table.index.by_id.iter().filter_map(|(id, key)| Some((*id, table.get(key)?)))
            });
            in_order
                .map(|row| &row.letter)
                .filter(|letter| queue.is_none_or(|queue| letter.queue == queue))
                .take(limited(limit))
                .cloned()
                .collect()
        })
        .await
    }
}

#[async_trait]
impl DeadLetterRepo for MemoryUnit {
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        let locks =
            letters.iter().map(|letter| Lock::DeadLetter(letter.queue.clone(), letter.key.clone())).collect();
        self.write(locks, |statement| {
            for letter in letters {
                let parked =
                    statement.dead_letters().get(&(letter.queue.clone(), letter.key.clone())).cloned();
                let row = match parked {
                    None => {
                        let id = next(&mut statement.sequences.dead_letters);
                        DeadLetterRow {
                            id,
                            letter: DeadLetter { status: DeadLetterStatus::Open, ..letter.clone() },
                        }
                    }
                    Some(mut row) => match row.letter.status {
                        DeadLetterStatus::Open => continue,
                        DeadLetterStatus::Replayed | DeadLetterStatus::Discarded => {
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
}
