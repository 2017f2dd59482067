//! Keyset pagination by id, and the newest ids of a table.

use handover_outbox::ports::StoreError;

use crate::dialect::Dialect;
use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

/// A query for one page: the rows beyond a bound that meet every condition.
pub(super) struct Page {
    sql: String,
    values: Vec<Value>,
    /// Columns of `ORDER BY`, without the direction of the last one.
    keys: String,
    order: &'static str,
}

impl Page {
    /// Rows with ids below `before`, greatest first. `select` is `SELECT .. FROM table`.
    pub(super) fn below(select: &str, id: &'static str, before: Option<i64>) -> Page {
        let sql = format!("{select} WHERE {id} < ?");
        Page { sql, values: values![before.unwrap_or(i64::MAX)], keys: id.to_owned(), order: "DESC" }
    }

    /// Rows that have these values in the columns of an index that ends with the id, with ids below `before`, greatest first.
    pub(super) fn below_in(
        dialect: &dyn Dialect,
        select: &str,
        index: &str,
        columns: &[(&str, Value)],
        before: Option<i64>,
    ) -> Page {
        let hint = dialect.index(index);
        let equal = |page: Page, columns: &[(&str, Value)]| {
            columns
                .iter()
                .fold(page, |page, (column, value)| page.and(&format!("{column} = ?"), [value.clone()]))
        };
        let Some(((last, value), others)) = columns.split_last().filter(|_| hint.is_empty()) else {
            return equal(Page::below(&format!("{select} {hint}"), "id", before), columns);
        };
        // PostgreSQL has no hints. With `column = ? ORDER BY id`, it may read the whole table in the order of the primary key.
        // Only the index has this order. The last column ends the scan only if the others have one value.
        let page = Page {
            sql: format!("{select} WHERE ({last}, id) < (?, ?) AND {last} >= ?"),
            values: vec![value.clone(), before.unwrap_or(i64::MAX).into(), value.clone()],
            keys: format!("{last} DESC, id"),
            order: "DESC",
        };
        equal(page, others)
    }

    /// Rows with ids above `after`, smallest first.
    pub(super) fn above(select: &str, id: &'static str, after: Option<i64>) -> Page {
        let sql = format!("{select} WHERE {id} > ?");
        Page { sql, values: values![after.unwrap_or(i64::MIN)], keys: id.to_owned(), order: "ASC" }
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
        (format!("{} ORDER BY {} {} LIMIT ?", self.sql, self.keys, self.order), self.values)
    }
}

/// The newest ids of a table: those above `after`.
pub(super) struct NewestIds {
    pub(super) after: i64,
    /// Whether the table has older rows.
    pub(super) has_older: bool,
}

impl NewestIds {
    /// The condition that the id of the row `alias` is one of these. It has two bounds: for one, PostgreSQL expects a third
    /// of the table in a plan that it makes before it knows the value.
    pub(super) fn contain(alias: &str) -> String {
        format!("{alias}.id > ? AND {alias}.id <= ?")
    }

    /// The values of [`NewestIds::contain`].
    pub(super) fn values(&self) -> Vec<Value> {
        values![self.after, i64::MAX]
    }
}

/// The greatest id of a table that is at most as great as the bound one.
pub(super) fn greatest_id(table: &'static str) -> String {
    format!("SELECT max(id) AS id FROM {table} WHERE id <= ?")
}

impl Session {
    /// At most `max_ids` newest ids of a table.
    pub(super) async fn newest_ids(
        &mut self,
        table: &'static str,
        max_ids: i64,
    ) -> Result<NewestIds, StoreError> {
        let greatest = self.greatest_id_up_to(table, i64::MAX).await?.unwrap_or_default();
        let after = greatest.saturating_sub(max_ids);
        let has_older = self.greatest_id_up_to(table, after).await?.is_some();
        Ok(NewestIds { after, has_older })
    }

    async fn greatest_id_up_to(&mut self, table: &'static str, id: i64) -> Result<Option<i64>, StoreError> {
        let row = self.fetch_one(&greatest_id(table), values![id]).await?;
        let id = |row: &Row| row.of(table, "id").opt_int("id");
        Ok(row.as_ref().map(id).transpose()?.flatten())
    }
}
