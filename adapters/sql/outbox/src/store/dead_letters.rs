//! Dead letters: queries, parking, decisions.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{
    Changed, DeadLetter, DeadLetterFilter, DeadLetterQueries, DeadLetterRepo, DeadLetterStatus, Decision,
    Numbered, StoreError,
};

use super::page::Page;
use crate::dialect::{Dialect, LookUp, MAX_ROWS, padded, placeholders};
use crate::row::Fields;
use crate::session::Session;
use crate::table::{Table, table};
use crate::value::{Value, values};

table! {
    DeadLetterTable("dead_letters" by "message_key"),
    read row as DeadLetter, write dead_letter as &'a DeadLetter;
    insert {
        queue: string("queue" = &dead_letter.queue),
        key: string("message_key" = &dead_letter.key),
        tenant: id("tenant_id" = dead_letter.tenant.get()),
        event_type: opt_string("event_type" = &dead_letter.event_type),
        trace_id: opt_string("trace_id" = &dead_letter.trace_id),
        body: string("body" = &dead_letter.body),
        reason: string("reason" = &dead_letter.reason),
        died_at: time("died_at" = dead_letter.died_at),
        status: (status(row))("status" = DeadLetterStatus::Open.as_str()),
    }
    read { decided_at: opt_time("decided_at"), note: opt_string("note") }
}

fn status(row: Fields<'_>) -> Result<DeadLetterStatus, StoreError> {
    let status = row.text("status")?;
    DeadLetterStatus::named(status).ok_or_else(|| row.corrupt("status", format!("{status:?} is unknown")))
}

fn select() -> String {
    format!("SELECT id, {} FROM dead_letters", DeadLetterTable::COLUMNS)
}

/// One page of the dead letters that match a filter, newest first.
pub(super) fn page(
    dialect: &dyn Dialect,
    filter: &DeadLetterFilter,
    before: Option<i64>,
    limit: u32,
) -> (String, Vec<Value>) {
    let is_found_by_index = filter.key.is_none() && filter.above_id.is_none();
    let page = match (filter.tenant.filter(|_| is_found_by_index), is_undecided(filter)) {
        (Some(tenant), is_undecided) => {
            let index = if is_undecided { "idx_dead_letters_undecided" } else { "idx_dead_letters_tenant" };
            let columns = [("tenant_id", tenant.get().into())];
            Page::below_in(dialect, &select(), index, &columns, before)
        }
        // Few dead letters have one key, or are undecided. They are found by an index in another order and then sorted: `id + 0`
        // prevents a scan in id order.
        (None, _) if filter.key.is_some() => {
            let select = format!("{} {}", select(), dialect.index("idx_dead_letters_key"));
            of_tenant(Page::below(&select, "id + 0", before), filter)
        }
        (None, true) if is_found_by_index => {
            let select = format!("{} {}", select(), dialect.index("idx_dead_letters_undecided"));
            Page::below(&select, "id + 0", before)
        }
        (None, _) => of_tenant(Page::below(&select(), "id", before), filter),
    };
    filtered(page, filter).limit(limit)
}

/// One page of the dead letters that match a filter, oldest first.
fn oldest(
    dialect: &dyn Dialect,
    filter: &DeadLetterFilter,
    after: Option<i64>,
    limit: u32,
) -> (String, Vec<Value>) {
    let after = after.max(filter.above_id);
    let filter = &DeadLetterFilter { above_id: None, ..filter.clone() };
    // The undecided dead letters are found by their index and then sorted: `id + 0` prevents a scan in id order, which would read
    // those that were decided long ago.
    let (id, index) = match is_undecided(filter) {
        true => ("id + 0", dialect.index("idx_dead_letters_undecided")),
        false => ("id", String::new()),
    };
    let page = Page::above(&format!("{} {index}", select()), id, after);
    filtered(of_tenant(page, filter), filter).limit(limit)
}

fn is_undecided(filter: &DeadLetterFilter) -> bool {
    filter.status.is_some_and(DeadLetterStatus::is_undecided) && filter.key.is_none()
}

/// The condition that a column has the bound value. In a range of ids COALESCE excludes all other indexes: they would find rows
/// outside of the range and sort them.
fn has_value(column: &str, filter: &DeadLetterFilter) -> String {
    match filter.above_id {
        Some(_) => format!("COALESCE({column}, {column}) = ?"),
        None => format!("{column} = ?"),
    }
}

fn of_tenant(page: Page, filter: &DeadLetterFilter) -> Page {
    page.with(&has_value("tenant_id", filter), filter.tenant.map(TenantId::get))
}

/// Adds the conditions of a filter to a page, without that of the tenant.
fn filtered(page: Page, filter: &DeadLetterFilter) -> Page {
    let page = page
        .with("id > ?", filter.above_id)
        .with("message_key = ?", filter.key.as_ref())
        .with(&has_value("queue", filter), filter.queue.as_ref())
        .with("event_type = ?", filter.event_type.as_ref())
        .with(&has_value("status", filter), filter.status.map(DeadLetterStatus::as_str))
        .with("died_at >= ?", filter.from)
        .with("died_at < ?", filter.to);
    // The predicate of the partial index idx_dead_letters_undecided, word for word; otherwise SQLite does not use it.
    let is_of_index = is_undecided(filter) && filter.above_id.is_none();
    if is_of_index { page.and("status IN ('OPEN', 'REPLAYING')", []) } else { page }
}

/// The dead letters with these keys, of every queue.
pub(super) fn of_keys(keys: &[String]) -> (String, Vec<Value>) {
    let keys = padded(keys);
    let sql = format!("{} WHERE message_key IN ({})", select(), placeholders(keys.len()));
    (sql, keys.iter().map(Value::from).collect())
}

#[async_trait]
impl DeadLetterQueries for Session {
    async fn dead_letter(&mut self, queue: &str, key: &str) -> Result<Option<DeadLetter>, StoreError> {
        let sql = format!("{} WHERE queue = ? AND message_key = ?", select());
        self.fetch_one(&sql, values![queue, key]).await?.as_ref().map(DeadLetterTable::read).transpose()
    }

    async fn dead_letters_page(
        &mut self,
        filter: &DeadLetterFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        let (sql, values) = page(self.dialect, filter, before, limit);
        self.fetch(&sql, values).await?.iter().map(DeadLetterTable::numbered).collect()
    }

    async fn dead_letters_after(
        &mut self,
        filter: &DeadLetterFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        let (sql, values) = oldest(self.dialect, filter, after, limit);
        self.fetch(&sql, values).await?.iter().map(DeadLetterTable::numbered).collect()
    }

    async fn dead_letters_of(&mut self, keys: &[String]) -> Result<Vec<DeadLetter>, StoreError> {
        let mut found = Vec::new();
        for keys in keys.chunks(MAX_ROWS) {
            let (sql, values) = of_keys(keys);
            for row in &self.fetch(&sql, values).await? {
                found.push(DeadLetterTable::numbered(row)?);
            }
        }
        // Removes duplicates: a message key that occurs in two chunks is read twice.
        found.sort_by_key(|row| row.id);
        found.dedup_by_key(|row| row.id);
        Ok(found.into_iter().map(|row| row.effect).collect())
    }

    async fn undecided_dead_letters(
        &mut self,
        tenant: Option<TenantId>,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let mut sql = format!(
            "SELECT queue, count(*) AS undecided FROM dead_letters {} WHERE status IN ('OPEN', 'REPLAYING')",
            self.dialect.index("idx_dead_letters_undecided"),
        );
        let mut values = Vec::new();
        if let Some(tenant) = tenant {
            sql.push_str(" AND tenant_id = ?");
            values.push(tenant.get().into());
        }
        sql.push_str(" GROUP BY queue");
        let rows = self.fetch(&sql, values).await?;
        let read = rows.iter().map(|row| {
            let row = row.of("dead_letters", "queue");
            Ok::<_, StoreError>((row.string("queue")?, row.id("undecided")?))
        });
        let mut by_queue = read.collect::<Result<Vec<_>, _>>()?;
        by_queue.sort();
        Ok(by_queue)
    }
}

impl Session {
    /// The keys (queue, message key) of those dead letters that exist already, and whether they are open.
    async fn existing(
        &mut self,
        dead_letters: &[DeadLetter],
    ) -> Result<BTreeMap<(String, String), bool>, StoreError> {
        let mut existing = BTreeMap::new();
        let mut keys: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for dead_letter in dead_letters {
            keys.entry(&dead_letter.queue).or_default().push(&dead_letter.key);
        }
        for (queue, keys) in keys {
            for keys in keys.chunks(MAX_ROWS) {
                let keys = padded(keys);
                let (sql, values) = self.dialect.look_up(LookUp {
                    columns: "queue, message_key, status",
                    from: format!("dead_letters {}", self.dialect.lock_index("uk_dead_letter")),
                    column: "message_key",
                    keys: keys.into_iter().map(Value::from).collect(),
                    conditions: "queue = ?".to_owned(),
                    values: values![queue],
                    lock: self.dialect.for_update(),
                    ..LookUp::default()
                });
                for row in self.fetch(&sql, values).await? {
                    let row = DeadLetterTable::fields(&row);
                    let is_open = row.text("status")? == DeadLetterStatus::Open.as_str();
                    existing.insert((row.string("queue")?, row.string("message_key")?), is_open);
                }
            }
        }
        Ok(existing)
    }
}

#[async_trait]
impl DeadLetterRepo for Session {
    async fn park(&mut self, dead_letters: &[DeadLetter]) -> Result<(), StoreError> {
        let dead_letters: Vec<DeadLetter> = dead_letters.iter().map(DeadLetter::storable).collect();
        let existing = self.existing(&dead_letters).await?;
        let mut seen = BTreeSet::new();
        for dead_letter in &dead_letters {
            let key = (dead_letter.queue.clone(), dead_letter.key.clone());
            let is_open = existing.get(&key).copied();
            if !seen.insert(key) || is_open == Some(true) {
                continue;
            }
            if is_open == Some(false) {
                let sql = "UPDATE dead_letters SET status = 'OPEN', reason = ?, died_at = ? \
                           WHERE queue = ? AND message_key = ?";
                let values =
                    values![&dead_letter.reason, dead_letter.died_at, &dead_letter.queue, &dead_letter.key];
                self.execute(sql, values).await?;
                continue;
            }
            // Each dead letter is inserted with its own statement: a multi-row statement could exceed MySQL's
            // `max_allowed_packet`.
            self.insert_into::<DeadLetterTable>(DeadLetterTable::values(dead_letter), "").await?;
        }
        Ok(())
    }

    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError> {
        if decision.from.is_empty() {
            return Ok(Changed::None);
        }
        let from = padded(&decision.from);
        let sql = format!(
            "UPDATE dead_letters SET status = ?, decided_at = ?, note = COALESCE(?, note) \
             WHERE queue = ? AND message_key = ? AND status IN ({})",
            placeholders(from.len())
        );
        let mut values =
            values![decision.to.as_str(), decision.at, &decision.note, &decision.queue, &decision.key,];
        values.extend(from.iter().map(|status| Value::from(status.as_str())));
        Ok(Changed::of(self.execute(&sql, values).await?))
    }
}
