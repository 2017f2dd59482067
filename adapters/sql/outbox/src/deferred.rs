//! Writes of a unit of work that are not sent yet: several are sent as one statement.
//!
//! **Invariant:** a deferred write is sent before, or together with, the next write, before a read of its table and before
//! the commit.

use crate::dialect::Joining;
use crate::value::Value;

/// Maximum number of rows of a deferred insert that binds each value: larger ones gain little, and would make joined statements
/// of many shapes. An insert that binds a list per column has one shape.
pub(crate) const MAX_DEFERRED_ROWS: usize = 8;
/// Maximum number of values of the deferred writes, far below the limit of every engine for the parameters of a statement.
const MAX_DEFERRED_VALUES: usize = 2_000;

/// A write whose caller needs no result.
struct Write {
    table: &'static str,
    sql: String,
    values: Vec<Value>,
}

/// The deferred writes of one unit of work, in their order.
#[derive(Default)]
pub(crate) struct DeferredWrites {
    is_allowed: bool,
    writes: Vec<Write>,
}

impl DeferredWrites {
    /// Allows writes to be deferred from now on.
    pub(crate) fn allow(&mut self) {
        self.is_allowed = true;
    }

    pub(crate) fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether the statement contains the name of a table with a deferred write.
    pub(crate) fn concern(&self, sql: &str) -> bool {
        self.writes.iter().any(|write| sql.contains(write.table))
    }

    /// Whether there is room for a write with so many values.
    pub(crate) fn have_room_for(&self, values: usize) -> bool {
        self.writes.iter().map(|write| write.values.len()).sum::<usize>() + values <= MAX_DEFERRED_VALUES
    }

    pub(crate) fn push(&mut self, table: &'static str, sql: String, values: Vec<Value>) {
        self.writes.push(Write { table, sql, values });
    }

    /// Takes all writes as one statement that ends with the given one, or with the last of them.
    pub(crate) fn take(
        &mut self,
        joining: Joining,
        last: Option<(&str, Vec<Value>)>,
    ) -> (String, Vec<Value>) {
        let writes = std::mem::take(&mut self.writes).into_iter().map(|write| (write.sql, write.values));
        let last = last.map(|(sql, values)| (sql.to_owned(), values));
        let (statements, values): (Vec<String>, Vec<Vec<Value>>) = writes.chain(last).unzip();
        (joined(joining, &statements), values.concat())
    }
}

/// One statement that runs these.
fn joined(joining: Joining, statements: &[String]) -> String {
    match (joining, statements) {
        (Joining::CommonTableExpressions, [first @ .., last]) if !first.is_empty() => {
            let numbered = first.iter().enumerate();
            let expressions: Vec<String> =
                numbered.map(|(number, sql)| format!("deferred_{number} AS ({sql})")).collect();
            format!("WITH {} {last}", expressions.join(", "))
        }
        (Joining::Script | Joining::CommonTableExpressions | Joining::None, _) => statements.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::values;

    fn deferred() -> DeferredWrites {
        let mut deferred = DeferredWrites::default();
        deferred.push("a", "INSERT INTO a VALUES (?)".to_owned(), values![1_i64]);
        deferred.push("b", "INSERT INTO b VALUES (?)".to_owned(), values![2_i64]);
        deferred
    }

    #[test]
    fn deferred_writes_are_joined_in_their_order() {
        for (joining, expected) in [
            (
                Joining::CommonTableExpressions,
                "WITH deferred_0 AS (INSERT INTO a VALUES (?)), deferred_1 AS (INSERT INTO b VALUES (?)) UPDATE c SET d = ?",
            ),
            (Joining::Script, "INSERT INTO a VALUES (?); INSERT INTO b VALUES (?); UPDATE c SET d = ?"),
        ] {
            let (sql, values) = deferred().take(joining, Some(("UPDATE c SET d = ?", values![3_i64])));
            assert_eq!(sql, expected);
            assert_eq!(format!("{values:?}"), format!("{:?}", values![1_i64, 2_i64, 3_i64]));
        }
        let (sql, _) = deferred().take(Joining::CommonTableExpressions, None);
        assert_eq!(sql, "WITH deferred_0 AS (INSERT INTO a VALUES (?)) INSERT INTO b VALUES (?)");
    }

    #[test]
    fn deferred_write_concerns_statements_that_name_its_table() {
        assert!(deferred().concern("SELECT 1 FROM c JOIN b ON TRUE"));
        assert!(!DeferredWrites::default().concern("SELECT 1 FROM b"));
    }
}
