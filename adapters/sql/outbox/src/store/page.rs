//! Keyset pagination by id.

use crate::value::{Value, values};

/// A query for one page: the rows beyond a bound that meet every condition.
pub(super) struct Page {
    sql: String,
    values: Vec<Value>,
    id: &'static str,
    order: &'static str,
}

impl Page {
    /// Rows with ids below `before`, greatest first. `select` is `SELECT .. FROM table`.
    pub(super) fn below(select: &str, id: &'static str, before: Option<i64>) -> Page {
        let sql = format!("{select} WHERE {id} < ?");
        Page { sql, values: values![before.unwrap_or(i64::MAX)], id, order: "DESC" }
    }

    /// Rows with ids above `after`, smallest first.
    pub(super) fn above(select: &str, id: &'static str, after: Option<i64>) -> Page {
        let sql = format!("{select} WHERE {id} > ?");
        Page { sql, values: values![after.unwrap_or(i64::MIN)], id, order: "ASC" }
    }

    /// Adds a condition with one parameter, if a value is given.
    pub(super) fn with(mut self, condition: &str, value: Option<impl Into<Value>>) -> Page {
        if let Some(value) = value {
            self = self.and(condition, [value.into()]);
        }
        self
    }

    /// Adds a condition and its parameters.
    pub(super) fn and(mut self, condition: &str, values: impl IntoIterator<Item = Value>) -> Page {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
        self
    }

    /// Binds the parameters of the `select` text, which precede all others.
    pub(super) fn bind_select(mut self, values: impl IntoIterator<Item = Value>) -> Page {
        self.values.splice(0..0, values);
        self
    }

    /// Adds order and limit; returns the statement and its parameters.
    pub(super) fn limit(mut self, most: u32) -> (String, Vec<Value>) {
        self.values.push(most.into());
        (format!("{} ORDER BY {} {} LIMIT ?", self.sql, self.id, self.order), self.values)
    }
}
