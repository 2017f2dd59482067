//! Appends events whose sequence numbers the store assigns.
//!
//! **Invariant:** the numbers that the store assigns to the events of one aggregate ascend in the order of the commits.
//! They start after the highest number of the aggregate, and have gaps only where a unit of work was rolled back or two
//! began the sequence of an aggregate at once.

use std::collections::BTreeMap;

use handover_outbox::ports::NewEvent;

use super::outbox_table::OutboxTable;
use crate::dialect::{Dialect, MAX_ROWS, Sequencing, placeholders};
use crate::table::Table;
use crate::value::{Value, values};

/// Values of the columns `aggregate_type`, `aggregate_id` and `tenant_id`.
type Key<'e> = (&'e str, i64, i64);

fn key(event: &NewEvent) -> Key<'_> {
    (&event.aggregate.kind, event.aggregate.id.number(), event.aggregate.tenant.get())
}

fn key_values((kind, number, tenant): Key<'_>) -> Vec<Value> {
    values![kind, number, tenant]
}

/// Number of events to be numbered per aggregate. The order of the keys is the order in which their counters are locked,
/// so that two units of work that append events of several aggregates cannot wait for each other.
fn counts(events: &[NewEvent]) -> BTreeMap<Key<'_>, i64> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| event.aggregate_seq.is_none()) {
        *counts.entry(key(event)).or_insert(0) += 1;
    }
    counts
}

/// The highest number among the newest rows of an aggregate and its archived events; 0 without any. Its parameters are
/// [`newest_values`]. Only 100 rows are read, newest first, so that the cost does not depend on the number of events of an
/// aggregate.
fn newest(dialect: &dyn Dialect) -> String {
    format!(
        "(SELECT COALESCE(max(newest.aggregate_seq), 0) FROM (SELECT aggregate_seq FROM (SELECT e.aggregate_seq FROM \
         outbox_events e {index} WHERE e.aggregate_type = ? AND e.aggregate_id = ? AND e.tenant_id = ? ORDER BY e.id DESC \
         LIMIT 100) newest_rows UNION ALL SELECT max(a.aggregate_seq) FROM outbox_archived_events a \
         WHERE a.aggregate_type = ? AND a.aggregate_id = ? AND a.tenant_id = ?) newest)",
        index = dialect.index("idx_aggregate"),
    )
}

fn newest_values(of: Key<'_>) -> Vec<Value> {
    [key_values(of), key_values(of)].concat()
}

/// The last number of an aggregate in a table with its counter, minus a bound number.
fn counted(table: &str) -> String {
    format!(
        "(SELECT s.seq FROM {table} s WHERE s.aggregate_type = ? AND s.aggregate_id = ? AND s.tenant_id = ?) - ?"
    )
}

/// Adds to the counter of one aggregate (MySQL, MariaDB). The highest number is read by a statement of its own: a subquery of an
/// INSERT would lock the rows that it reads, and the gaps between them, until the end of the transaction. The relay and
/// transactions on other aggregates would wait.
///
/// A deadlock rolls back the transaction, and each later statement is then committed by itself. MariaDB knows whether a
/// transaction is open: if not, the highest number is NULL, and the counter refuses it before an event is inserted. MySQL
/// does not execute this comment.
fn count_one(dialect: &dyn Dialect, of: Key<'_>, count: i64) -> [(String, Vec<Value>); 2] {
    let newest = newest(dialect);
    let find = format!("SELECT /*M! IF(@@in_transaction, */ {newest} /*M! , NULL) */ INTO @handover_newest");
    let add = "INSERT INTO outbox_sequences (aggregate_type, aggregate_id, tenant_id, seq) \
               VALUES (?, ?, ?, ? + @handover_newest) ON DUPLICATE KEY UPDATE seq = seq + ?";
    let mut values = key_values(of);
    values.extend([count.into(), count.into()]);
    [(find, newest_values(of)), (add.to_owned(), values)]
}

/// Adds to the counters of several aggregates and returns them (PostgreSQL).
fn count_all(counts: &[(Key<'_>, i64)]) -> (String, Vec<Value>) {
    let keys = vec!["(?::text, ?::bigint, ?::bigint, ?::bigint)"; counts.len()].join(", ");
    let sql = format!(
        "INSERT INTO outbox_sequences AS s (aggregate_type, aggregate_id, tenant_id, seq) \
         SELECT n.kind, n.number, n.tenant, n.events + CASE WHEN EXISTS (SELECT 1 FROM outbox_sequences c \
             WHERE c.aggregate_type = n.kind AND c.aggregate_id = n.number AND c.tenant_id = n.tenant) THEN 0 \
           ELSE GREATEST((SELECT COALESCE(max(e.aggregate_seq), 0) FROM outbox_events e \
             WHERE e.aggregate_type = n.kind AND e.aggregate_id = n.number AND e.tenant_id = n.tenant), \
             (SELECT COALESCE(max(a.aggregate_seq), 0) FROM outbox_archived_events a \
             WHERE a.aggregate_type = n.kind AND a.aggregate_id = n.number AND a.tenant_id = n.tenant)) END \
         FROM (VALUES {keys}) AS n (kind, number, tenant, events) \
         ON CONFLICT (aggregate_type, aggregate_id, tenant_id) DO UPDATE SET seq = s.seq + excluded.seq \
         RETURNING s.aggregate_type, s.aggregate_id, s.tenant_id, s.seq"
    );
    let mut values = Vec::with_capacity(counts.len() * 4);
    for (of, count) in counts {
        values.extend(key_values(*of));
        values.push((*count).into());
    }
    (sql, values)
}

/// Builds the rows of `INSERT` statements, in the order of the events.
struct Rows<'e> {
    /// Number of events of each aggregate that are not numbered yet; empty if a number does not depend on later events.
    left: BTreeMap<Key<'e>, i64>,
}

impl<'e> Rows<'e> {
    /// `VALUES` of these rows. `next` is the expression of the number of an event. Its parameters are those that `keyed`
    /// returns for the key of the aggregate and, with `left`, the number of later events of the aggregate.
    fn values(
        &mut self,
        events: &'e [NewEvent],
        next: &str,
        keyed: fn(Key<'_>) -> Vec<Value>,
    ) -> (String, Vec<Value>) {
        let mut rows = Vec::with_capacity(events.len());
        let mut values = Vec::with_capacity(events.len() * (OutboxTable::INSERTED + 3));
        for event in events {
            let mut columns = OutboxTable::values(event);
            let others = columns.split_off(1);
            let others_placeholders = placeholders(others.len());
            if event.aggregate_seq.is_some() {
                rows.push(format!("(?, {others_placeholders})"));
                values.extend(columns);
            } else {
                rows.push(format!("({next}, {others_placeholders})"));
                values.extend(keyed(key(event)));
                values.extend(self.later(event).map(Value::from));
            }
            values.extend(others);
        }
        (format!("VALUES {}", rows.join(", ")), values)
    }

    /// Number of later events of the aggregate that get a number.
    fn later(&mut self, event: &'e NewEvent) -> Option<i64> {
        let left = self.left.get_mut(&key(event))?;
        *left -= 1;
        Some(*left)
    }
}

/// The statements that append events, with their parameters. They return nothing, so they also run on a connection of an
/// application.
pub(crate) fn append_statements(dialect: &dyn Dialect, events: &[NewEvent]) -> Vec<(String, Vec<Value>)> {
    if events.iter().any(|event| event.aggregate_seq.is_none()) {
        return numbered_statements(dialect, events);
    }
    dialect.insert(OutboxTable::INSERT, OutboxTable::INSERTED, OutboxTable::rows(events), "")
}

/// The statements that append events of which at least one has no number.
fn numbered_statements(dialect: &dyn Dialect, events: &[NewEvent]) -> Vec<(String, Vec<Value>)> {
    let counts = counts(events);
    let mut statements = Vec::new();
    match dialect.sequencing() {
        Sequencing::NewestRow => {
            // A statement for each event, because a statement does not read the rows that it inserts.
            let next = format!("{} + 1", newest(dialect));
            let one = |event| {
                Rows { left: BTreeMap::new() }.values(std::slice::from_ref(event), &next, newest_values)
            };
            return events.iter().map(one).map(insert).collect();
        }
        Sequencing::Counters => {
            statements.extend(counts.iter().flat_map(|(of, count)| count_one(dialect, *of, *count)));
        }
        Sequencing::CountersInStatement => {
            // In the order of the keys, in which their counters are locked.
            let all: Vec<_> = counts.iter().map(|(of, count)| (*of, *count)).collect();
            if events.len() <= MAX_ROWS {
                let (count, mut values) = count_all(&all);
                // OFFSET keeps the rows a subquery: the row ids are assigned after its rows are read, and so after the
                // lock of the counter. Otherwise the ids would not be in the order of the commits.
                let (rows, row_values) =
                    Rows { left: counts }.values(events, &counted("counted"), key_values);
                let insert = format!("{} SELECT * FROM ({rows} OFFSET 0) AS appended", OutboxTable::INSERT);
                values.extend(row_values);
                return vec![(format!("WITH counted AS ({count}) {insert}"), values)];
            }
            statements.extend(all.chunks(MAX_ROWS).map(count_all));
        }
    }
    let mut rows = Rows { left: counts };
    let next = counted("outbox_sequences");
    statements.extend(events.chunks(MAX_ROWS).map(|events| insert(rows.values(events, &next, key_values))));
    statements
}

fn insert((rows, values): (String, Vec<Value>)) -> (String, Vec<Value>) {
    (format!("{} {rows}", OutboxTable::INSERT), values)
}
