//! Pages of numbered rows, greatest number first.

use crate::value::{Value, values};

/// A query for a page: the rows numbered below a bound that meet every condition.
pub(super) struct Page {
    sql: String,
    values: Vec<Value>,
    id: &'static str,
    order: &'static str,
}

impl Page {
    /// `select` is `SELECT .. FROM table`, `id` the column of the numbers.
    pub(super) fn below(select: &str, id: &'static str, before: Option<i64>) -> Page {
        let sql = format!("{select} WHERE {id} < ?");
        Page { sql, values: values![before.unwrap_or(i64::MAX)], id, order: "DESC" }
    }

    /// The same from the other end: the rows numbered above a bound, smallest number first.
    pub(super) fn above(select: &str, id: &'static str, after: Option<i64>) -> Page {
        let sql = format!("{select} WHERE {id} > ?");
        Page { sql, values: values![after.unwrap_or(i64::MIN)], id, order: "ASC" }
    }

    /// Narrows it by a condition on a value, if there is one.
    pub(super) fn with(mut self, condition: &str, value: Option<impl Into<Value>>) -> Page {
        if let Some(value) = value {
            self = self.and(condition, [value.into()]);
        }
        self
    }

    /// Narrows it by a condition and its values.
    pub(super) fn and(mut self, condition: &str, values: impl IntoIterator<Item = Value>) -> Page {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
        self
    }

    /// Gives the values of the marks between SELECT and WHERE.
    pub(super) fn selecting(mut self, values: impl IntoIterator<Item = Value>) -> Page {
        self.values.splice(0..0, values);
        self
    }

    /// The statement and its values.
    pub(super) fn of_at_most(mut self, most: u32) -> (String, Vec<Value>) {
        self.values.push(most.into());
        (format!("{} ORDER BY {} {} LIMIT ?", self.sql, self.id, self.order), self.values)
    }
}
