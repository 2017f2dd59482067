//! Reads the fields of a JSON object and collects everything that is wrong with them.
//!
//! **Invariant:** a field that nobody read, or that comes twice, is an error; in a nested object too.

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

/// The fields of one object. Read each, then [`Fields::finish`].
pub(crate) struct Fields {
    /// What stands before the names of a nested object's fields: `filter.`
    within: String,
    values: Vec<(String, Field)>,
    errors: Vec<(String, Text)>,
}

/// A field as it came. Of an object only the text is kept: its fields are read when it is asked for.
struct Field {
    value: Value,
    object: Option<Box<RawValue>>,
}

impl Fields {
    /// Of an empty object.
    pub(crate) fn none() -> Fields {
        Fields { within: String::new(), values: Vec::new(), errors: Vec::new() }
    }

    /// Of the object in these bytes.
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
        Fields::of(object, String::new()).map_err(|(name, text)| Refusal::field(&name, text))
    }

    /// The fields, or the one that cannot be read although it is within JSON.
    fn of(object: Object, within: String) -> Result<Fields, (String, Text)> {
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
        let errors =
            object.twice.into_iter().map(|name| (format!("{within}{name}"), messages::TWICE)).collect();
        Ok(Fields { within, values, errors })
    }

    /// The field, if it is there and not null.
    fn take(&mut self, name: &str) -> Option<Field> {
        let place = self.values.iter().position(|(given, _)| given == name)?;
        Some(self.values.remove(place).1).filter(|field| !field.value.is_null())
    }

    /// A field that must be there.
    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, Text>,
    ) -> Option<T> {
        match self.take(name) {
            None => self.wrong(name, messages::REQUIRED),
            Some(field) => read(&field.value).map_or_else(|error| self.wrong(name, error), Some),
        }
    }

    /// A field that may be absent or null. The outer `None` means that it is wrong.
    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, Text>,
    ) -> Option<Option<T>> {
        match self.take(name) {
            None => Some(None),
            Some(field) => {
                read(&field.value).map_or_else(|error| self.wrong(name, error), |value| Some(Some(value)))
            }
        }
    }

    /// A nested object that may be absent or null; its fields are read from the [`Fields`] given. The outer `None` means
    /// that it, or something in it, is wrong.
    pub(crate) fn object<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Fields) -> Option<T>,
    ) -> Option<Option<T>> {
        let Some(field) = self.take(name) else { return Some(None) };
        let within = format!("{}{name}.", self.within);
        let Some(raw) = field.object else { return self.wrong(name, messages::NOT_AN_OBJECT) };
        let object = serde_json::from_str::<Object>(raw.get());
        let inner = object
            .map_err(|_| (name.to_owned(), messages::NOT_READABLE))
            .and_then(|object| Fields::of(object, within));
        let mut inner = match inner {
            Ok(inner) => inner,
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        };
        let value = read(&mut inner);
        let errors = inner.close();
        let is_right = errors.is_empty();
        self.errors.extend(errors);
        value.filter(|_| is_right).map(Some)
    }

    /// Notes what is wrong with a field; with an empty name, with this object.
    pub(crate) fn wrong<T>(&mut self, name: &str, error: impl Into<Text>) -> Option<T> {
        let name = format!("{}{name}", self.within);
        self.errors.push((name.trim_end_matches('.').to_owned(), error.into()));
        None
    }

    /// What was read, if nothing is wrong.
    pub(crate) fn finish<T>(self, read: Option<T>) -> Result<T, Refusal> {
        let errors = self.close();
        match read {
            Some(read) if errors.is_empty() => Ok(read),
            Some(_) | None => Err(Refusal::invalid(errors)),
        }
    }

    /// Everything that is wrong, what nobody read included.
    fn close(mut self) -> Vec<(String, Text)> {
        let within = &self.within;
        let unknown =
            self.values.iter().map(|(name, _)| (format!("{within}{name}"), messages::UNKNOWN_FIELD));
        self.errors.extend(unknown);
        self.errors
    }
}

/// Any text.
pub(crate) fn text(value: &Value) -> Result<String, Text> {
    value.as_str().map(str::to_owned).ok_or(messages::NOT_TEXT)
}

/// 1 to `max` visible ASCII characters.
pub(crate) fn visible_ascii(max: usize) -> impl FnOnce(&Value) -> Result<String, Text> {
    move |value| {
        let text = text(value)?;
        let legal = (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(text) } else { Err(messages::visible_ascii(max)) }
    }
}

/// 1 to `max` characters, none of them a control character.
pub(crate) fn short_text(max: usize) -> impl FnOnce(&Value) -> Result<String, Text> {
    move |value| {
        let text = text(value)?;
        TextError::check(&text, max)?;
        Ok(text)
    }
}

/// The title of a product.
pub(crate) fn title(value: &Value) -> Result<Title, Text> {
    Ok(Title::try_from(text(value)?)?)
}

/// An amount of money.
pub(crate) fn money(value: &Value) -> Result<Money, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    Ok(Money::parse(number.as_str())?)
}

/// The price of a product, or another amount of that size.
pub(crate) fn price(value: &Value) -> Result<Money, Text> {
    amount_within(value, *Product::PRICE_MINOR.start(), messages::PRICE_RANGE)
}

/// An amount of at least so many minor units and of at most the greatest price. `range` says so, also of an amount that is too
/// great for any column.
pub(crate) fn amount_within(value: &Value, least: i64, range: Text) -> Result<Money, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    match Money::parse(number.as_str()) {
        Ok(amount) if (least..=*Product::PRICE_MINOR.end()).contains(&amount.minor()) => Ok(amount),
        Ok(_) | Err(MoneyError::OutOfRange) => Err(range),
        Err(error @ (MoneyError::NotDecimal | MoneyError::TooPrecise)) => Err(error.into()),
    }
}

/// An id, as a number.
pub(crate) fn id<I: TryFrom<i64, Error = IdError>>(value: &Value) -> Result<I, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    let number = number.as_i64().ok_or(IdError::OutOfRange)?;
    Ok(I::try_from(number)?)
}

/// A number of points, none among them.
pub(crate) fn points(value: &Value) -> Result<Points, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    number.as_i64().and_then(|number| Points::try_from(number).ok()).ok_or(messages::POINTS_RANGE)
}

/// A yes or a no.
pub(crate) fn flag(value: &Value) -> Result<bool, Text> {
    value.as_bool().ok_or(messages::NOT_A_FLAG)
}

/// A whole number.
pub(crate) fn integer(value: &Value) -> Result<i64, Text> {
    value.as_number().and_then(|number| number.as_i64()).ok_or(messages::NOT_AN_INTEGER)
}

/// A moment.
pub(crate) fn time(value: &Value) -> Result<DateTime<Utc>, Text> {
    messages::moment(&text(value)?)
}

/// A name out of an enum.
pub(crate) fn name<T: std::str::FromStr<Err = UnknownName>>(value: &Value) -> Result<T, Text> {
    text(value)?.parse().map_err(|error: UnknownName| messages::one_of(error.expected))
}

/// The id of an event.
pub(crate) fn event_id(value: &Value) -> Result<EventId, Text> {
    Ok(text(value)?.parse::<EventId>()?)
}

/// `cursor`: where a list, or what was done to one, goes on.
pub(crate) fn cursor(value: &Value) -> Result<i64, Text> {
    text(value)?.parse().ok().filter(|id| *id > 0).ok_or(messages::BAD_CURSOR)
}

/// Why an operator does something.
pub(crate) fn reason(value: &Value) -> Result<Reason, Text> {
    Ok(Reason::new(text(value)?)?)
}

/// A list of names: as many as a call may name one by one.
pub(crate) fn named<T: Ord + Clone>(
    item: impl Fn(&Value) -> Result<T, Text>,
) -> impl FnOnce(&Value) -> Result<Named<T>, Text> {
    move |value| {
        let items = value.as_array().ok_or_else(|| messages::list(MAX_NAMED))?;
        // Before they are read: a longer one is not worth it.
        if items.len() > MAX_NAMED {
            return Err(messages::list(MAX_NAMED));
        }
        let items = items.iter().map(item).collect::<Result<Vec<T>, Text>>()?;
        Named::new(items).ok_or_else(|| messages::list(MAX_NAMED))
    }
}

/// An object with the names that came twice, which `serde_json::Map` would hide; of those the last value counts.
struct Object {
    values: Vec<(String, Box<RawValue>)>,
    twice: Vec<String>,
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
                let mut object = Object { values: Vec::new(), twice: Vec::new() };
                let mut places: BTreeMap<String, usize> = BTreeMap::new();
                while let Some((name, value)) = entries.next_entry::<String, Box<RawValue>>()? {
                    let place = places.get(&name).and_then(|place| object.values.get_mut(*place));
                    if let Some((_, last)) = place {
                        *last = value;
                        if !object.twice.contains(&name) {
                            object.twice.push(name);
                        }
                        continue;
                    }
                    places.insert(name.clone(), object.values.len());
                    object.values.push((name, value));
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
