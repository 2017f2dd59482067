//! What differs between engines, and the pieces of SQL that do not.

use crate::value::Value;

/// How rows are claimed from a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claiming {
    /// One `UPDATE .. RETURNING`: atomic by itself where there is one writer.
    UpdateReturning,
    /// `SELECT .. FOR UPDATE SKIP LOCKED`, then `UPDATE`.
    #[cfg_attr(not(any(feature = "mysql", feature = "postgres")), allow(dead_code))]
    SkipLocked,
}

/// The SQL of one engine, where it is its own.
pub trait Dialect: Send + Sync {
    /// Begins a transaction that may write.
    fn begin(&self) -> &'static str;

    /// What before a query makes it tell how it would be answered.
    fn explain(&self) -> &'static str;

    /// Names the key by which a `SELECT` locks rows, on an engine that locks whatever it looks at.
    fn by_key(&self, name: &str) -> String;

    /// A query whose column `now` is the database's own now.
    fn now(&self) -> &'static str;

    /// Locks the rows that a `SELECT` reads until the end of the transaction.
    fn for_update(&self) -> &'static str;

    /// Locks the rows that a `SELECT` reads, and leaves out those that others have locked.
    fn skip_locked(&self) -> &'static str;

    /// A query whose column `name` lists the tables of the database, on PostgreSQL those of the current schema.
    fn tables(&self) -> &'static str;

    /// The bytes of this column as hexadecimal digits in upper case.
    fn hexadecimal(&self, column: &str) -> String {
        format!("HEX({column})")
    }

    /// How rows are claimed from a queue.
    fn claiming(&self) -> Claiming;

    /// Names the index of a table in `FROM`: a plan that must not depend on statistics.
    fn index(&self, name: &str) -> String;

    /// Names the index by which every `FAILED` row of the outbox is found.
    fn failed(&self) -> String;

    /// That the row `o` of the outbox is still to be published, as the index says it that holds these rows.
    fn pending(&self) -> &'static str;

    /// After an `INSERT`: a row that is there already, by this key, takes the new values of these columns.
    fn or_replace(&self, key: &str, columns: &[&str]) -> String;

    /// The statements that insert rows of so many columns, with their values.
    fn insert(
        &self,
        into: &str,
        columns: usize,
        values: Vec<Value>,
        after: &str,
    ) -> Vec<(String, Vec<Value>)> {
        insert_values(into, columns, values, after)
    }

    /// The sum of integers as an integer: engines make another type of it.
    fn sum(&self, of: &str) -> String;

    /// A column for a condition that no index may serve, on an engine that knows no hints.
    fn unindexed(&self, column: &str) -> String {
        column.to_owned()
    }

    /// A word that the planner does not know, so that no partial index serves, on an engine that knows no hints.
    fn hidden(&self, word: &str) -> String {
        format!("'{word}'")
    }

    /// Joins the one row of a table, if there is one, that has the key of the row before it.
    fn left_join_one(&self, table: &str, alias: &str, key: &str, on: &str) -> String {
        format!("LEFT JOIN {table} {alias} {key} ON {on}", key = self.by_key(key))
    }

    /// The statement of a look-up by keys, and its values.
    fn look_up(&self, by: LookUp<'_>) -> (String, Vec<Value>) {
        let LookUp { columns, from, joined, column, keys, conditions, values, order, lock } = by;
        let (join, mut bound) = joined;
        let order = if order.is_empty() { String::new() } else { format!("ORDER BY {order}") };
        let sql = format!(
            "SELECT {columns} FROM {from} {join} WHERE {column} IN ({}) AND {conditions} {order} {lock}",
            marks(keys.len())
        );
        bound.extend(keys);
        bound.extend(values);
        (sql, bound)
    }
}

/// Rows that are found by a list of keys. Each key is searched for in the index by itself: PostgreSQL would otherwise
/// read all that has the other columns of the key as long as it takes the table for small.
#[derive(Default)]
pub struct LookUp<'a> {
    /// The columns that are read.
    pub columns: &'a str,
    /// The table, with its hint.
    pub from: String,
    /// What is joined to it, and the values of that.
    pub joined: (String, Vec<Value>),
    /// The column that is one of the keys.
    pub column: &'a str,
    /// The keys.
    pub keys: Vec<Value>,
    /// The other conditions: at least one.
    pub conditions: String,
    /// The values of those.
    pub values: Vec<Value>,
    /// The columns by which rows are sorted; empty if by none.
    pub order: &'a str,
    /// What locks the rows, as [`Dialect::for_update`] says; empty if nothing does.
    pub lock: &'static str,
}

/// The most rows of one multi-row statement. With the widest table it stays far below every engine's limit of
/// parameters (32,766 on SQLite).
pub const MAX_ROWS: usize = 128;

/// `?, ?, ?`
pub fn marks(count: usize) -> String {
    let mut text = "?,".repeat(count);
    text.pop();
    text
}

/// `INSERT .. VALUES`, in chunks of rows.
pub(crate) fn insert_values(
    into: &str,
    columns: usize,
    values: Vec<Value>,
    after: &str,
) -> Vec<(String, Vec<Value>)> {
    let mut left = values.len() / columns;
    let mut values = values.into_iter();
    let mut statements = Vec::new();
    while left > 0 {
        let rows = chunk(left);
        let sql = format!("{into} VALUES {} {after}", tuples(rows, columns));
        statements.push((sql, values.by_ref().take(rows * columns).collect()));
        left -= rows;
    }
    statements
}

/// `(?, ?), (?, ?)`
fn tuples(rows: usize, columns: usize) -> String {
    let tuple = format!("({}),", marks(columns));
    let mut text = tuple.repeat(rows);
    text.pop();
    text
}

/// The length of the next chunk of `left` rows: the greatest power of two, so that there are few distinct statements
/// (a connection keeps a hundred of them prepared).
pub(crate) fn chunk(left: usize) -> usize {
    let capped = left.min(MAX_ROWS);
    if capped == 0 { 0 } else { 1 << capped.ilog2() }
}

/// A list for `IN`, padded to a power of two with its last member.
pub fn padded<T: Clone>(list: &[T]) -> Vec<T> {
    let mut padded = list.to_vec();
    if let Some(last) = list.last() {
        padded.resize(list.len().next_power_of_two(), last.clone());
    }
    padded
}

/// `?` becomes `$1`, `$2`, ... outside of quotes (PostgreSQL).
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
pub(crate) fn numbered(sql: &str) -> String {
    let (mut text, mut number, mut quoted) = (String::with_capacity(sql.len() + 16), 0u32, false);
    for character in sql.chars() {
        match character {
            '\'' => {
                quoted = !quoted;
                text.push(character);
            }
            '?' if !quoted => {
                number += 1;
                text.push_str(&format!("${number}"));
            }
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{chunk, numbered, padded};

    #[test]
    fn question_marks_are_numbered_outside_of_quotes() {
        assert_eq!(numbered("a = ? AND b = '?' AND c = ?"), "a = $1 AND b = '?' AND c = $2");
    }

    #[test]
    fn statements_come_in_few_lengths() {
        assert_eq!((chunk(0), chunk(1), chunk(20), chunk(200)), (0, 1, 16, 128));
        assert_eq!(padded(&[1, 2, 3]), [1, 2, 3, 3]);
        assert!(padded::<u8>(&[]).is_empty());
    }
}
