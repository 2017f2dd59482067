//! Rows of query results, and typed access to their columns.
//!
//! **Invariant:** a stored value that cannot be converted to the requested type becomes `StoreError::Corrupt` with its
//! table, column and row, never a panic and never a default.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, Utc};
use handover_events::{AggregateId, AggregateRef, Trace};
use handover_outbox::ports::StoreError;

use crate::value::{Value, parse_time};

/// Table name in errors of [`Row::int`], [`Row::text`] and [`Row::time`], for which no table is given.
const QUERY: &str = "a query";

/// The columns of a query result.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
    /// Index at which the next search begins: most rows are read in the order of their columns.
    next: AtomicUsize,
}

impl Columns {
    pub(crate) fn new(names: Vec<String>) -> Columns {
        Columns { names, next: AtomicUsize::new(0) }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    fn position(&self, column: &str) -> Option<usize> {
        let next = self.next.load(Ordering::Relaxed).min(self.names.len());
        let (before, after) = self.names.split_at(next);
        let is_named = |name: &String| name == column;
        let later = after.iter().position(is_named).map(|index| next + index);
        let position = later.or_else(|| before.iter().position(is_named))?;
        self.next.store(position + 1, Ordering::Relaxed);
        Some(position)
    }
}

/// A row of a query result.
#[derive(Debug)]
pub struct Row {
    pub(crate) columns: Arc<Columns>,
    /// One item per column. If a value cannot be decoded (such as `infinity`), the item is the error; the other
    /// columns stay readable.
    pub(crate) values: Vec<Result<Value, String>>,
}

impl Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (column, value) in self.columns.names.iter().zip(&self.values) {
            match value {
                Ok(Value::Int(Some(value))) => write!(f, "{column}={value} ")?,
                Ok(Value::Text(Some(value))) => write!(f, "{column}={value} ")?,
                Ok(Value::Time(Some(value))) => write!(f, "{column}={value} ")?,
                Ok(Value::Int(None) | Value::Text(None) | Value::Time(None) | Value::List(_)) | Err(_) => {}
            }
        }
        Ok(())
    }
}

impl Row {
    /// Access to the columns of a row of `table`; errors identify the row by its column `key`.
    pub fn of(&self, table: &'static str, key: &'static str) -> Fields<'_> {
        Fields { row: self, table, key }
    }

    /// Reads an integer that is not NULL.
    pub fn int(&self, column: &'static str) -> Result<i64, StoreError> {
        self.of(QUERY, column).int(column)
    }

    /// Reads a string that is not NULL.
    pub fn text(&self, column: &'static str) -> Result<&str, StoreError> {
        self.of(QUERY, column).text(column)
    }

    /// Reads a timestamp that is not NULL.
    pub fn time(&self, column: &'static str) -> Result<DateTime<Utc>, StoreError> {
        self.of(QUERY, column).time(column)
    }

    fn value(&self, column: &str) -> Option<&Result<Value, String>> {
        self.columns.position(column).and_then(|index| self.values.get(index))
    }
}

/// Typed access to the columns of a row. Errors name the table, the column and the row.
#[derive(Clone, Copy)]
pub struct Fields<'r> {
    row: &'r Row,
    table: &'static str,
    key: &'static str,
}

impl<'r> Fields<'r> {
    /// The error for an invalid value in this column.
    pub fn corrupt(&self, column: &'static str, why: impl Display) -> StoreError {
        let key = match self.row.value(self.key) {
            Some(Ok(Value::Int(Some(key)))) => format!("{} {key}", self.key),
            Some(Ok(Value::Text(Some(key)))) => format!("{} {key}", self.key),
            Some(Ok(Value::Time(Some(key)))) => format!("{} {key}", self.key),
            Some(Ok(Value::Int(None) | Value::Text(None) | Value::Time(None) | Value::List(_)) | Err(_))
            | None => "a row".to_owned(),
        };
        StoreError::Corrupt { table: self.table, column, key, why: why.to_string() }
    }

    fn required<T>(&self, column: &'static str, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| self.corrupt(column, "the value is NULL"))
    }

    fn value(&self, column: &'static str) -> Result<&'r Value, StoreError> {
        match self.row.value(column) {
            Some(Ok(value)) => Ok(value),
            Some(Err(why)) => Err(self.corrupt(column, format!("the value cannot be decoded: {why}"))),
            None => Err(self.corrupt(column, "the query did not return this column")),
        }
    }

    /// Reads an integer that may be NULL.
    pub fn opt_int(&self, column: &'static str) -> Result<Option<i64>, StoreError> {
        match self.value(column)? {
            Value::Int(value) => Ok(*value),
            Value::Text(None) | Value::Time(None) => Ok(None),
            Value::Text(Some(_)) | Value::Time(Some(_)) | Value::List(_) => {
                Err(self.corrupt(column, "the value is not an integer"))
            }
        }
    }

    /// Reads an integer that is not NULL.
    pub fn int(&self, column: &'static str) -> Result<i64, StoreError> {
        self.required(column, self.opt_int(column)?)
    }

    /// Reads a string that may be NULL.
    pub fn opt_text(&self, column: &'static str) -> Result<Option<&'r str>, StoreError> {
        match self.value(column)? {
            Value::Text(value) => Ok(value.as_deref()),
            Value::Int(None) | Value::Time(None) => Ok(None),
            Value::Int(Some(_)) | Value::Time(Some(_)) | Value::List(_) => {
                Err(self.corrupt(column, "the value is not a string"))
            }
        }
    }

    /// Reads a string that may be NULL, as an owned value.
    pub fn opt_string(&self, column: &'static str) -> Result<Option<String>, StoreError> {
        Ok(self.opt_text(column)?.map(str::to_owned))
    }

    /// Reads a string that is not NULL.
    pub fn text(&self, column: &'static str) -> Result<&'r str, StoreError> {
        self.required(column, self.opt_text(column)?)
    }

    /// Reads a string that is not NULL, as an owned value.
    pub fn string(&self, column: &'static str) -> Result<String, StoreError> {
        Ok(self.text(column)?.to_owned())
    }

    /// Reads a timestamp that may be NULL.
    pub fn opt_time(&self, column: &'static str) -> Result<Option<DateTime<Utc>>, StoreError> {
        match self.value(column)? {
            Value::Time(value) => Ok(*value),
            Value::Text(Some(text)) => parse_time(text)
                .map(Some)
                .map_err(|error| self.corrupt(column, format!("{text:?} is not a timestamp: {error}"))),
            Value::Text(None) | Value::Int(None) => Ok(None),
            Value::Int(Some(_)) | Value::List(_) => Err(self.corrupt(column, "the value is not a timestamp")),
        }
    }

    /// Reads a timestamp that is not NULL.
    pub fn time(&self, column: &'static str) -> Result<DateTime<Utc>, StoreError> {
        self.required(column, self.opt_time(column)?)
    }

    /// Reads an integer that is not NULL and converts it to `T`.
    pub fn id<T: TryFrom<i64, Error: Display>>(&self, column: &'static str) -> Result<T, StoreError> {
        T::try_from(self.int(column)?).map_err(|error| self.corrupt(column, error))
    }

    /// Reads an integer that may be NULL and converts it to `T`.
    pub fn opt_id<T: TryFrom<i64, Error: Display>>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let value = self.opt_int(column)?;
        value.map(|value| T::try_from(value).map_err(|error| self.corrupt(column, error))).transpose()
    }

    /// Reads a count from 0 to `u32::MAX`.
    pub fn count(&self, column: &'static str) -> Result<u32, StoreError> {
        self.id(column)
    }

    /// Reads a string that is not NULL and parses it as `T`.
    pub fn named<T: FromStr<Err: Display>>(&self, column: &'static str) -> Result<T, StoreError> {
        self.text(column)?.parse().map_err(|error| self.corrupt(column, error))
    }

    /// Reads a string that may be NULL and parses it as `T`.
    pub fn opt_named<T: FromStr<Err: Display>>(&self, column: &'static str) -> Result<Option<T>, StoreError> {
        let text = self.opt_text(column)?;
        text.map(|text| text.parse().map_err(|error| self.corrupt(column, error))).transpose()
    }

    /// Reads a boolean that is stored as an integer: 0 is false, any other value is true.
    pub fn flag(&self, column: &'static str) -> Result<bool, StoreError> {
        Ok(self.int(column)? != 0)
    }

    /// Reads the trace from `trace_id` and `traceparent`; `None` if `trace_id` is NULL.
    pub fn trace(&self) -> Result<Option<Trace>, StoreError> {
        let traceparent = self.opt_string("traceparent")?;
        Ok(self.opt_string("trace_id")?.map(|trace_id| Trace { trace_id, traceparent }))
    }

    /// Reads the aggregate from `tenant_id`, `aggregate_type`, `aggregate_id` and `aggregate_key`.
    pub fn aggregate(&self) -> Result<AggregateRef, StoreError> {
        let number = self.int("aggregate_id")?;
        let key = self.opt_text("aggregate_key")?;
        Ok(AggregateRef {
            tenant: self.id("tenant_id")?,
            kind: self.string("aggregate_type")?,
            id: AggregateId::stored(number, key).map_err(|error| self.corrupt("aggregate_key", error))?,
        })
    }
}
