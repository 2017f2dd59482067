//! Values that are bound to statements and read from rows.

use chrono::{DateTime, NaiveDateTime, Utc};
use handover_events::{AggregateId, AggregateRef, EventId};

/// A column or parameter value. NULL has a type too, because PostgreSQL requires one for every parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer; booleans are stored as 0 and 1.
    Int(Option<i64>),
    /// A string.
    Text(Option<String>),
    /// A timestamp with microsecond precision.
    Time(Option<DateTime<Utc>>),
    /// An array of values of one type. Can only be bound, and only on PostgreSQL.
    List(Vec<Value>),
}

impl Value {
    /// Size of the text in bytes; 0 for other values.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Value::Text(text) => text.as_ref().map_or(0, String::len),
            Value::Int(_) | Value::Time(_) | Value::List(_) => 0,
        }
    }
}

macro_rules! from {
    ($($type:ty => $kind:ident($value:ident) $with:expr;)+) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Value {
                Value::$kind($with)
            }
        }
    )+};
}

from! {
    i64 => Int(value) Some(value);
    u32 => Int(value) Some(i64::from(value));
    u8 => Int(value) Some(i64::from(value));
    bool => Int(value) Some(i64::from(value));
    Option<i64> => Int(value) value;
    &str => Text(value) Some(value.to_owned());
    String => Text(value) Some(value);
    &String => Text(value) Some(value.clone());
    Option<String> => Text(value) value;
    &Option<String> => Text(value) value.clone();
    Option<&str> => Text(value) value.map(str::to_owned);
    &EventId => Text(value) Some(value.as_str().to_owned());
    DateTime<Utc> => Time(value) Some(value);
    Option<DateTime<Utc>> => Time(value) value;
}

/// Converts expressions to the parameter list of a statement, in order.
#[macro_export]
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::Value::from($value)),*] };
}
pub(crate) use values;

/// The condition on the columns of an aggregate, and its values. `prefix` is the alias of the table with a point, or
/// empty.
pub(crate) fn is_aggregate(prefix: &str, of: &AggregateRef) -> (String, Vec<Value>) {
    let (of_id, id_values) = is_aggregate_id(prefix, &of.id);
    let sql = format!("{prefix}tenant_id = ? AND {prefix}aggregate_type = ? AND {of_id}");
    let mut values = values![of.tenant.get(), &of.kind];
    values.extend(id_values);
    (sql, values)
}

/// The condition on the columns of the id of an aggregate. The number alone would also select the aggregate of a text
/// key with this hash.
pub(crate) fn is_aggregate_id(prefix: &str, id: &AggregateId) -> (String, Vec<Value>) {
    match id.key() {
        None => (format!("{prefix}aggregate_id = ? AND {prefix}aggregate_key IS NULL"), values![id.number()]),
        Some(key) => {
            (format!("{prefix}aggregate_id = ? AND {prefix}aggregate_key = ?"), values![id.number(), key])
        }
    }
}

/// Formats a time for SQLite, with a fixed width, so that sorting the texts sorts the times.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
pub(crate) fn time_text(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Parses a time in the format of [`time_text`], in any RFC 3339 format, or as an operator may enter it in SQL
/// (`YYYY-MM-DD HH:MM:SS`, also with `T`). A time without a zone is UTC.
pub(crate) fn parse_time(text: &str) -> Result<DateTime<Utc>, chrono::ParseError> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.to_utc());
    }
    let naive = text.trim_end_matches('Z').replacen('T', " ", 1);
    NaiveDateTime::parse_from_str(&naive, "%Y-%m-%d %H:%M:%S%.f").map(|time| time.and_utc())
}
