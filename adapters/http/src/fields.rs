//! Reads the fields of a JSON object and collects all validation errors.
//!
//! **Invariant:** unknown and duplicate fields are errors, in nested objects too.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use handover_events::{EventId, IdError, TextError, UnknownName};
use handover_outbox::operations::{MAX_NAMED, Named, Reason};
use marketplace_domain::{Money, MoneyError, Points, Product, Title};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::messages::{self, Text};
use crate::refusal::Refusal;

/// The fields of one object. Read each field, then call [`Fields::finish`].
pub(crate) struct Fields {
    /// Prefix of the field names in a nested object, such as `filter.`
    within: String,
    values: Vec<(String, Field)>,
    errors: Vec<(String, Text)>,
}

/// A field of the body. For an object, only its text is stored; [`Fields::object`] parses it.
struct Field {
    value: Value,
    object: Option<Box<RawValue>>,
}

impl Fields {
    pub(crate) fn empty() -> Fields {
        Fields { within: String::new(), values: Vec::new(), errors: Vec::new() }
    }

    /// Parses a JSON object.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Fields, Refusal> {
        let object: Object = serde_json::from_slice(bytes).map_err(|error| {
            let is_json = error.is_data();
            let text = if is_json {
                messages::NOT_AN_OBJECT
            } else {
                messages::not_json(error.line(), error.column())
            };
            Refusal::field("body", text)
        })?;
        Fields::from_object(object, String::new()).map_err(|(name, text)| Refusal::field(&name, text))
    }

    /// Fails if a value is valid JSON but cannot be represented, such as an unpaired surrogate.
    fn from_object(object: Object, within: String) -> Result<Fields, (String, Text)> {
        let mut values = Vec::with_capacity(object.values.len());
        for (name, raw) in object.values {
            let field = if raw.get().starts_with('{') {
                Field { value: Value::Object(Map::new()), object: Some(raw) }
            } else {
                let value = serde_json::from_str(raw.get());
                let value = value.map_err(|_| (format!("{within}{name}"), messages::NOT_READABLE))?;
                Field { value, object: None }
            };
            values.push((name, field));
        }
        let errors = object
            .duplicates
            .into_iter()
            .map(|name| (format!("{within}{name}"), messages::DUPLICATE))
            .collect();
        Ok(Fields { within, values, errors })
    }

    /// Removes and returns the field, if it is present and not null.
    fn take(&mut self, name: &str) -> Option<Field> {
        let index = self.values.iter().position(|(given, _)| given == name)?;
        Some(self.values.remove(index).1).filter(|field| !field.value.is_null())
    }

    /// Reads a required field.
    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, Text>,
    ) -> Option<T> {
        match self.take(name) {
            None => self.reject(name, messages::REQUIRED),
            Some(field) => read(&field.value).map_or_else(|error| self.reject(name, error), Some),
        }
    }

    /// Reads a field that may be absent or null. The outer `None` means that it is invalid.
    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, Text>,
    ) -> Option<Option<T>> {
        match self.take(name) {
            None => Some(None),
            Some(field) => {
                read(&field.value).map_or_else(|error| self.reject(name, error), |value| Some(Some(value)))
            }
        }
    }

    /// Reads a nested object that may be absent or null. The outer `None` means that the object or one of its fields is
    /// invalid.
    pub(crate) fn object<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Fields) -> Option<T>,
    ) -> Option<Option<T>> {
        let Some(field) = self.take(name) else { return Some(None) };
        let within = format!("{}{name}.", self.within);
        let Some(raw) = field.object else { return self.reject(name, messages::NOT_AN_OBJECT) };
        let object = serde_json::from_str::<Object>(raw.get());
        let inner = object
            .map_err(|_| (name.to_owned(), messages::NOT_READABLE))
            .and_then(|object| Fields::from_object(object, within));
        let mut inner = match inner {
            Ok(inner) => inner,
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        };
        let value = read(&mut inner);
        let errors = inner.into_errors();
        let is_valid = errors.is_empty();
        self.errors.extend(errors);
        value.filter(|_| is_valid).map(Some)
    }

    /// Records a validation error of a field, or of the object itself if the name is empty.
    pub(crate) fn reject<T>(&mut self, name: &str, error: impl Into<Text>) -> Option<T> {
        let name = format!("{}{name}", self.within);
        self.errors.push((name.trim_end_matches('.').to_owned(), error.into()));
        None
    }

    /// Returns the value that was read, or all validation errors.
    pub(crate) fn finish<T>(self, read: Option<T>) -> Result<T, Refusal> {
        let errors = self.into_errors();
        match read {
            Some(read) if errors.is_empty() => Ok(read),
            Some(_) | None => Err(Refusal::invalid(errors)),
        }
    }

    /// All validation errors, including those of fields that were not read.
    fn into_errors(mut self) -> Vec<(String, Text)> {
        let within = &self.within;
        let unknown =
            self.values.iter().map(|(name, _)| (format!("{within}{name}"), messages::UNKNOWN_FIELD));
        self.errors.extend(unknown);
        self.errors
    }
}

pub(crate) fn text(value: &Value) -> Result<String, Text> {
    value.as_str().map(str::to_owned).ok_or(messages::NOT_TEXT)
}

/// Reads 1 to `max` visible ASCII characters.
pub(crate) fn visible_ascii(max: usize) -> impl FnOnce(&Value) -> Result<String, Text> {
    move |value| {
        let text = text(value)?;
        let legal = (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(text) } else { Err(messages::visible_ascii(max)) }
    }
}

/// Reads 1 to `max` characters without control characters.
pub(crate) fn short_text(max: usize) -> impl FnOnce(&Value) -> Result<String, Text> {
    move |value| {
        let text = text(value)?;
        TextError::check(&text, max)?;
        Ok(text)
    }
}

pub(crate) fn title(value: &Value) -> Result<Title, Text> {
    Ok(Title::try_from(text(value)?)?)
}

pub(crate) fn money(value: &Value) -> Result<Money, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    Ok(Money::parse(number.as_str())?)
}

/// Reads an amount within the limits of a product price.
pub(crate) fn price(value: &Value) -> Result<Money, Text> {
    amount_within(value, *Product::PRICE_MINOR.start(), messages::PRICE_RANGE)
}

/// Reads an amount from `least` minor units to the maximum price. `range` is the message for every amount out of range,
/// including those that `Money` cannot represent.
pub(crate) fn amount_within(value: &Value, least: i64, range: Text) -> Result<Money, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    match Money::parse(number.as_str()) {
        Ok(amount) if (least..=*Product::PRICE_MINOR.end()).contains(&amount.minor()) => Ok(amount),
        Ok(_) | Err(MoneyError::OutOfRange) => Err(range),
        Err(error @ (MoneyError::NotDecimal | MoneyError::TooPrecise)) => Err(error.into()),
    }
}

/// Reads a numeric id.
pub(crate) fn id<I: TryFrom<i64, Error = IdError>>(value: &Value) -> Result<I, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    let number = number.as_i64().ok_or(IdError::OutOfRange)?;
    Ok(I::try_from(number)?)
}

/// Reads a number of points; 0 is allowed.
pub(crate) fn points(value: &Value) -> Result<Points, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    number.as_i64().and_then(|number| Points::try_from(number).ok()).ok_or(messages::POINTS_RANGE)
}

pub(crate) fn boolean(value: &Value) -> Result<bool, Text> {
    value.as_bool().ok_or(messages::NOT_A_BOOLEAN)
}

pub(crate) fn integer(value: &Value) -> Result<i64, Text> {
    value.as_number().and_then(|number| number.as_i64()).ok_or(messages::NOT_AN_INTEGER)
}

/// Reads an RFC 3339 timestamp.
pub(crate) fn time(value: &Value) -> Result<DateTime<Utc>, Text> {
    messages::parse_time(&text(value)?)
}

/// Reads the name of an enum variant.
pub(crate) fn name<T: std::str::FromStr<Err = UnknownName>>(value: &Value) -> Result<T, Text> {
    text(value)?.parse().map_err(|error: UnknownName| messages::one_of(error.expected))
}

pub(crate) fn event_id(value: &Value) -> Result<EventId, Text> {
    Ok(text(value)?.parse::<EventId>()?)
}

/// Reads `cursor`, the position at which a list or a bulk operation continues.
pub(crate) fn cursor(value: &Value) -> Result<i64, Text> {
    text(value)?.parse().ok().filter(|id| *id > 0).ok_or(messages::BAD_CURSOR)
}

/// Reads the operator's reason for the audit log.
pub(crate) fn reason(value: &Value) -> Result<Reason, Text> {
    Ok(Reason::new(text(value)?)?)
}

/// Reads `result`, the outcome that the gateway reports.
pub(crate) fn result<T>(success: T, failed: T) -> impl FnOnce(&Value) -> Result<T, Text> {
    move |value| match value.as_str() {
        Some("SUCCESS") => Ok(success),
        Some("FAILED") => Ok(failed),
        Some(_) | None => Err(messages::one_of("SUCCESS FAILED")),
    }
}

/// Reads a list of 1 to [`MAX_NAMED`] items; duplicates are removed.
pub(crate) fn named<T: Ord + Clone>(
    item: impl Fn(&Value) -> Result<T, Text>,
) -> impl FnOnce(&Value) -> Result<Named<T>, Text> {
    move |value| {
        let items = value.as_array().ok_or_else(|| messages::list(MAX_NAMED))?;
        // Checked before the items are parsed, to bound the work.
        if items.len() > MAX_NAMED {
            return Err(messages::list(MAX_NAMED));
        }
        let items = items.iter().map(item).collect::<Result<Vec<T>, Text>>()?;
        Named::new(items).ok_or_else(|| messages::list(MAX_NAMED))
    }
}

/// A parsed object with its duplicate names, which `serde_json::Map` would hide. Of duplicates, the last value is stored.
struct Object {
    values: Vec<(String, Box<RawValue>)>,
    duplicates: Vec<String>,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
                let mut object = Object { values: Vec::new(), duplicates: Vec::new() };
                let mut indexes: BTreeMap<String, usize> = BTreeMap::new();
                while let Some((name, value)) = entries.next_entry::<String, Box<RawValue>>()? {
                    let entry = indexes.get(&name).and_then(|index| object.values.get_mut(*index));
                    if let Some((_, last)) = entry {
                        *last = value;
                        if !object.duplicates.contains(&name) {
                            object.duplicates.push(name);
                        }
                        continue;
                    }
                    indexes.insert(name.clone(), object.values.len());
                    object.values.push((name, value));
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
