//! Recorded fields of a log event or `tracing` span.

use std::collections::BTreeMap;
use std::fmt;

use opentelemetry::Value;
use tracing::field::{Field, Visit};

#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(BTreeMap<&'static str, Value>);

impl Fields {
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|value| value.as_str().into_owned())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        if let Value::I64(number) = self.0.get(name)? { Some(*number) } else { None }
    }

    /// Adds the fields of an enclosing span that are not set yet.
    pub(crate) fn inherit(&mut self, outer: &Fields) {
        for (name, value) in &outer.0 {
            self.0.entry(name).or_insert_with(|| value.clone());
        }
    }

    pub(crate) fn into_all_except(self, excluded: &[&str]) -> impl Iterator<Item = (&'static str, Value)> {
        self.0.into_iter().filter(|(name, _)| !excluded.contains(name))
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name(), value.into());
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}
