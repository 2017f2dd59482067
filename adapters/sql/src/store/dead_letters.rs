//! Dead letters.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_application::ports::{
    DeadLetter, DeadLetterQueries, DeadLetterRepo, DeadLetterStatus, StoreError,
};

use super::limit;
use crate::dialect::{MAX_ROWS, marks, padded};
use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

const COLUMNS: &str = "queue, message_key, tenant_id, event_type, trace_id, body, reason, died_at, status";

const fn status_name(status: DeadLetterStatus) -> &'static str {
    match status {
        DeadLetterStatus::Open => "OPEN",
        DeadLetterStatus::Replayed => "REPLAYED",
        DeadLetterStatus::Discarded => "DISCARDED",
    }
}

fn letter(row: &Row) -> Result<DeadLetter, StoreError> {
    let row = row.of("dead_letters", "message_key");
    Ok(DeadLetter {
        queue: row.string("queue")?,
        key: row.string("message_key")?,
        tenant: row.id("tenant_id")?,
        event_type: row.opt_string("event_type")?,
        trace_id: row.opt_string("trace_id")?,
        body: row.string("body")?,
        reason: row.string("reason")?,
        died_at: row.time("died_at")?,
        status: match row.text("status")? {
            "OPEN" => DeadLetterStatus::Open,
            "REPLAYED" => DeadLetterStatus::Replayed,
            "DISCARDED" => DeadLetterStatus::Discarded,
            other => return Err(row.corrupt("status", format!("{other:?} is unknown"))),
        },
    })
}

#[async_trait]
impl DeadLetterQueries for Session {
    async fn dead_letter(&mut self, queue: &str, key: &str) -> Result<Option<DeadLetter>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM dead_letters WHERE queue = ? AND message_key = ?");
        self.fetch_one(&sql, values![queue, key]).await?.as_ref().map(letter).transpose()
    }

    async fn dead_letters(&mut self, queue: Option<&str>, most: u32) -> Result<Vec<DeadLetter>, StoreError> {
        let (of_queue, mut values) = match queue {
            Some(queue) => ("WHERE queue = ?", values![queue]),
            None => ("", Vec::new()),
        };
        values.push(limit(most).into());
        let sql = format!("SELECT {COLUMNS} FROM dead_letters {of_queue} ORDER BY id LIMIT ?");
        self.fetch(&sql, values).await?.iter().map(letter).collect()
    }
}

impl Session {
    /// Which of the letters are there already, and whether they are open.
    async fn parked(
        &mut self,
        letters: &[DeadLetter],
    ) -> Result<BTreeMap<(String, String), bool>, StoreError> {
        let mut parked = BTreeMap::new();
        let mut keys: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for letter in letters {
            keys.entry(&letter.queue).or_default().push(&letter.key);
        }
        for (queue, keys) in keys {
            for keys in keys.chunks(MAX_ROWS) {
                let keys = padded(keys);
                let sql = format!(
                    "SELECT queue, message_key, status FROM dead_letters {key} WHERE queue = ? \
                     AND message_key IN ({keys}) {lock}",
                    key = self.dialect.by_key("uk_dead_letter"),
                    keys = marks(keys.len()),
                    lock = self.dialect.for_update(),
                );
                let values = values![queue].into_iter().chain(keys.into_iter().map(Value::from)).collect();
                for row in self.fetch(&sql, values).await? {
                    let row = row.of("dead_letters", "message_key");
                    let is_open = row.text("status")? == status_name(DeadLetterStatus::Open);
                    parked.insert((row.string("queue")?, row.string("message_key")?), is_open);
                }
            }
        }
        Ok(parked)
    }
}

#[async_trait]
impl DeadLetterRepo for Session {
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError> {
        let parked = self.parked(letters).await?;
        let (mut rows, mut seen) = (Vec::new(), BTreeSet::new());
        for letter in letters {
            let key = (letter.queue.clone(), letter.key.clone());
            let known = parked.get(&key).copied();
            if !seen.insert(key) || known == Some(true) {
                continue;
            }
            if known == Some(false) {
                let sql = "UPDATE dead_letters SET status = 'OPEN', reason = ?, died_at = ? \
                           WHERE queue = ? AND message_key = ?";
                self.execute(sql, values![&letter.reason, letter.died_at, &letter.queue, &letter.key])
                    .await?;
                continue;
            }
            rows.extend(values![
                &letter.queue,
                &letter.key,
                letter.tenant.get(),
                &letter.event_type,
                &letter.trace_id,
                &letter.body,
                &letter.reason,
                letter.died_at,
                status_name(DeadLetterStatus::Open),
            ]);
        }
        self.insert(&format!("INSERT INTO dead_letters ({COLUMNS})"), 9, rows, "").await?;
        Ok(())
    }
}
