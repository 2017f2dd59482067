//! SQL that differs between engines, and helpers for building SQL that does not.

use crate::value::Value;

/// The statements that claim messages from a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claiming {
    /// One `UPDATE .. RETURNING`, on an engine with a single writer. With several connections, a call that is dropped could commit
    /// after the next call has read what it claimed.
    UpdateReturning,
    /// `SELECT .. FOR UPDATE SKIP LOCKED`, then `UPDATE`.
    #[cfg_attr(not(any(feature = "mysql", feature = "postgres")), allow(dead_code))]
    SkipLocked,
}

/// The statements that insert a row of which several transactions insert at most one, without a wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowClaiming {
    /// An `INSERT`: on an engine with a single writer, no transaction is concurrent.
    SingleWriter,
    /// An `INSERT` under an advisory lock of the key.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    AdvisoryLock,
    /// A locking `SELECT`, which finds rows that are not committed yet, then an `INSERT`.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code))]
    LockingRead,
}

/// The statements that assign sequence numbers to the events of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequencing {
    /// The number after that of the newest rows: on an engine with a single writer, nobody else appends.
    NewestRow,
    /// A statement that adds to a counter, before the rows are inserted.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code))]
    Counters,
    /// The statement that inserts the rows also adds to the counters.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    CountersInStatement,
}

/// How several writes are sent as one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// Not at all: a prepared statement with parameters is one write.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code))]
    None,
    /// One after the other, separated by semicolons: the driver hands them to the thread of the database together.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
    Script,
    /// The last one with the others in its `WITH`. They run in no defined order and do not see each other's rows.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    CommonTableExpressions,
}

/// Kind of a row of [`Dialect::catalogue`] whose definition is the statement that created the table: SQLite lists `CHECK`
/// constraints nowhere else.
pub(crate) const CREATED: &str = "created";

/// The SQL of one engine, where it differs from the others.
pub trait Dialect: Send + Sync {
    /// The keyword before a query that returns its plan.
    fn explain(&self) -> &'static str;

    /// The index hint for a locking `SELECT`, on an engine that locks every row it scans; empty elsewhere.
    fn lock_index(&self, name: &str) -> String;

    /// A query whose column `now` is the current time of the database.
    fn now(&self) -> &'static str;

    /// The clause that locks the rows of a `SELECT` until the end of the transaction; empty on an engine with one
    /// writer.
    fn for_update(&self) -> &'static str;

    /// The clause that locks the rows of a `SELECT` and skips rows that other transactions have locked; empty on an
    /// engine with one writer.
    fn skip_locked(&self) -> &'static str;

    /// A query whose column `name` lists the tables of the database (on PostgreSQL: of the current schema).
    fn tables(&self) -> &'static str;

    /// A query whose column `name` lists everything in the namespace of the tables, such as indexes; the column `kind` says
    /// what it is: `a table`.
    fn relations(&self) -> &'static str;

    /// A query for the schema: the columns `relation` (name of the table), `kind`, `name` and `definition`, as in
    /// [`SqlStore::schema_lines`](crate::SqlStore::schema_lines).
    fn catalogue(&self) -> &'static str;

    /// An expression for the bytes of a column as upper-case hexadecimal digits.
    fn hexadecimal(&self, column: &str) -> String {
        format!("HEX({column})")
    }

    /// Whether the engine runs transactions that write one after the other.
    fn has_single_writer(&self) -> bool {
        self.row_claiming() == RowClaiming::SingleWriter
    }

    /// The statements that claim messages from a queue.
    fn claiming(&self) -> Claiming;

    /// The statements that claim a row.
    fn row_claiming(&self) -> RowClaiming;

    /// The statements that assign sequence numbers.
    fn sequencing(&self) -> Sequencing;

    /// How several writes are sent as one statement.
    fn joining(&self) -> Joining;

    /// The index hint after a table in `FROM`, for a plan that must not depend on statistics; empty on an engine
    /// without hints.
    fn index(&self, name: &str) -> String;

    /// The index hint after a table in `FROM` whose rows are found by an integer primary key; empty on an engine that needs
    /// none.
    fn primary_key(&self) -> &'static str {
        ""
    }

    /// The table or view from which old audit entries of reads are deleted.
    fn deletable_audit_entries(&self) -> &'static str {
        "outbox_audit_log"
    }

    /// The hint for the index that finds every `FAILED` row of the outbox.
    fn failed(&self) -> String;

    /// The condition that the outbox row `o` is pending (`NEW` or `RETRY`), in the form for which the engine can use
    /// its index on pending rows.
    fn pending(&self) -> &'static str;

    /// The condition that a webhook delivery is claimed, in the form for which the engine can use its index on claimed
    /// deliveries.
    fn claimed(&self) -> &'static str {
        "claim_id IS NOT NULL"
    }

    /// The query for the time at which the first ready message entered the queue `q`; it reads one message.
    fn oldest_ready(&self) -> String {
        let index = self.index("idx_outbox_broker_ready");
        format!(
            "SELECT m.enqueued_at FROM outbox_broker_messages m {index} WHERE m.queue = q.queue AND m.session_id IS NULL \
             ORDER BY m.id LIMIT 1"
        )
    }

    /// The clause after an `INSERT` that updates these columns if a row with this key exists (upsert).
    fn or_replace(&self, key: &str, columns: &[&str]) -> String;

    /// The clause after an `INSERT` that ignores a row whose key exists.
    fn or_ignore(&self, key: &str) -> String {
        format!("ON CONFLICT ({key}) DO NOTHING")
    }

    /// The clause after an `INSERT` whose number of new rows [`Dialect::inserted`] returns. A row whose key exists is left
    /// as it is, or (on MySQL) updated in these columns, of which one MUST get another value.
    fn or_keep(&self, key: &str, _columns: &[&str]) -> String {
        self.or_ignore(key)
    }

    /// The number of new rows after an `INSERT` of `rows` rows with [`Dialect::or_ignore`] or [`Dialect::or_keep`].
    fn inserted(&self, _rows: u64, affected: u64) -> u64 {
        affected
    }

    /// The statements, with their parameters, that insert rows of `columns` values each.
    fn insert(
        &self,
        into: &str,
        columns: usize,
        values: Vec<Value>,
        after: &str,
    ) -> Vec<(String, Vec<Value>)> {
        insert_values(into, columns, values, after)
    }

    /// An expression for the sum of an integer column, as an integer: on some engines `SUM` returns another type.
    fn sum(&self, of: &str) -> String;

    /// A column in a condition that must not use an index. On an engine without hints the column is wrapped in an
    /// expression.
    fn unindexed(&self, column: &str) -> String {
        column.to_owned()
    }

    /// The position of a bound text in a column, compared byte by byte; 0 if the column does not contain it.
    fn position_in(&self, column: &str) -> String {
        format!("instr({column}, ?)")
    }

    /// A string literal. On an engine without hints its value is hidden from the planner, so that the planner uses no
    /// partial index.
    fn opaque_literal(&self, text: &str) -> String {
        format!("'{text}'")
    }

    /// Left-joins at most one row of a table, found by a unique key.
    fn left_join_one(&self, table: &str, alias: &str, key: &str, on: &str) -> String {
        format!("LEFT JOIN {table} {alias} {key} ON {on}", key = self.lock_index(key))
    }

    /// The lowest `aggregate_seq` in the index idx_aggregate_order, as in its predicate: most aggregates have few events, whose
    /// positions need no index.
    fn positions_indexed_from(&self) -> i64 {
        64
    }

    /// A `SELECT` with a limit as a part of a `UNION`.
    fn nested(&self, select: &str) -> String {
        format!("({select})")
    }

    /// The statement of a lookup by a list of keys, with its parameters.
    fn look_up(&self, by: LookUp<'_>) -> (String, Vec<Value>) {
        let LookUp { columns, from, joined, column, keys, conditions, values, order, lock } = by;
        let (join, mut bound) = joined;
        let order = if order.is_empty() { String::new() } else { format!("ORDER BY {order}") };
        let sql = format!(
            "SELECT {columns} FROM {from} {join} WHERE {column} IN ({}) AND {conditions} {order} {lock}",
            placeholders(keys.len())
        );
        bound.extend(keys);
        bound.extend(values);
        (sql, bound)
    }
}

/// A lookup of rows by a list of keys. On PostgreSQL each key is a separate index search: otherwise PostgreSQL, while
/// it estimates the table to be small, reads all rows that match the other columns of the index.
#[derive(Default)]
pub struct LookUp<'a> {
    /// The columns to read.
    pub columns: &'a str,
    /// The table, with its index hint.
    pub from: String,
    /// The joins, and their parameters.
    pub joined: (String, Vec<Value>),
    /// The column that is compared with `keys`.
    pub column: &'a str,
    /// The keys.
    pub keys: Vec<Value>,
    /// The conditions besides the comparison with `keys`, joined by `AND`. Must not be empty.
    pub conditions: String,
    /// The parameters of `conditions`.
    pub values: Vec<Value>,
    /// The columns of `ORDER BY`; empty if the rows need not be sorted.
    pub order: &'a str,
    /// The locking clause ([`Dialect::for_update`]); empty for no lock.
    pub lock: &'static str,
}

/// The maximum number of rows in an `INSERT .. VALUES` statement; callers also split lists of keys by it. Even with the
/// widest table the number of parameters is far below the limit of every engine (32,766 on SQLite).
pub const MAX_ROWS: usize = 128;

/// The lengths of lists of keys and of chunks of rows: few, so that there are few distinct statements (the cache of prepared
/// statements is limited), and close enough that a group needs one or two statements and its list little padding.
const LENGTHS: [usize; 12] = [1, 2, 4, 8, 16, 32, 50, 64, 100, 128, 200, 256];

/// The maximum size in bytes of the texts in an `INSERT .. VALUES` statement of several rows: a MySQL server may accept packets
/// of only 1 MB.
const MAX_TEXT_BYTES: usize = 512 * 1024;

/// `count` placeholders: `?,?,?`.
pub fn placeholders(count: usize) -> String {
    let mut text = "?,".repeat(count);
    text.pop();
    text
}

/// `INSERT .. VALUES` statements for chunks of rows.
pub(crate) fn insert_values(
    into: &str,
    columns: usize,
    values: Vec<Value>,
    after: &str,
) -> Vec<(String, Vec<Value>)> {
    let text_bytes = |row: &[Value]| row.iter().map(Value::text_bytes).sum::<usize>();
    let sizes: Vec<usize> = values.chunks(columns).map(text_bytes).collect();
    let mut left = sizes.len();
    let mut values = values.into_iter();
    let mut statements = Vec::new();
    while left > 0 {
        let mut rows = chunk(left);
        let skipped = sizes.len() - left;
        while rows > 1 && sizes.iter().skip(skipped).take(rows).sum::<usize>() > MAX_TEXT_BYTES {
            rows = chunk(rows - 1);
        }
        let sql = format!("{into} VALUES {} {after}", tuples(rows, columns));
        statements.push((sql, values.by_ref().take(rows * columns).collect()));
        left -= rows;
    }
    statements
}

/// Placeholders for rows: `(?,?),(?,?)`.
fn tuples(rows: usize, columns: usize) -> String {
    let tuple = format!("({}),", placeholders(columns));
    let mut text = tuple.repeat(rows);
    text.pop();
    text
}

/// The length of the next chunk of `left` rows: the greatest of [`LENGTHS`] up to `left`.
pub(crate) fn chunk(left: usize) -> usize {
    LENGTHS.into_iter().rev().find(|length| *length <= left).unwrap_or(0)
}

/// Pads a list for `IN` to one of a few lengths by repeating its last element, so that there are few distinct statements.
pub fn padded<T: Clone>(list: &[T]) -> Vec<T> {
    let mut padded = list.to_vec();
    if let Some(last) = list.last() {
        let length = LENGTHS.into_iter().find(|length| *length >= list.len());
        padded.resize(length.unwrap_or_else(|| list.len().next_power_of_two()), last.clone());
    }
    padded
}

/// Replaces each `?` outside quotes by `$1`, `$2`, ... (PostgreSQL).
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
pub(crate) fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 16);
    let mut number = 0u32;
    let mut quoted = false;
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
    use super::{chunk, insert_values, numbered, padded};
    use crate::value::Value;

    #[test]
    fn numbered_replaces_placeholders_outside_quotes() {
        assert_eq!(numbered("a = ? AND b = '?' AND c = ?"), "a = $1 AND b = '?' AND c = $2");
    }

    #[test]
    fn inserts_of_long_texts_have_fewer_rows() {
        let rows = |lengths: &[usize]| {
            let values = lengths.iter().map(|length| Value::from("x".repeat(*length))).collect();
            let statements = insert_values("INSERT INTO t (a)", 1, values, "");
            statements.into_iter().map(|(_, values)| values.len()).collect::<Vec<_>>()
        };
        assert_eq!(rows(&[9; 209]), [200, 8, 1]);
        assert_eq!(rows(&[100_000; 10]), [4, 4, 2]);
        assert_eq!(rows(&[1, 1, 700_000, 1]), [2, 1, 1]);
    }

    #[test]
    fn chunks_and_padded_lists_have_few_lengths() {
        assert_eq!([0, 1, 7, 99, 200, 1_000].map(chunk), [0, 1, 4, 64, 200, 256]);
        assert_eq!([1, 7, 101, 200, 257].map(|length| padded(&vec![9; length]).len()), [1, 8, 128, 200, 512]);
        assert_eq!(padded(&[1, 2, 3, 4, 5, 6, 7]), [1, 2, 3, 4, 5, 6, 7, 7]);
        assert!(padded::<u8>(&[]).is_empty());
    }
}
