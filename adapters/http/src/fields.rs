//! Reads the fields of a JSON object and collects everything that is wrong with them.
//!
//! **Invariant:** a field that nobody read, or that comes twice, is an error.

use std::fmt;

use handover_domain::{IdError, Money, Product, TextError, Title};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::messages::{self, Text};
use crate::refusal::Refusal;

/// The fields of one object. Read each, then [`Fields::finish`].
pub(crate) struct Fields {
    values: Map<String, Value>,
    errors: Vec<(String, Text)>,
}

impl Fields {
    /// Of an empty object.
    pub(crate) fn none() -> Fields {
        Fields { values: Map::new(), errors: Vec::new() }
    }

    /// Of the object in these bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Fields, Refusal> {
        let object: Object =
            serde_json::from_slice(bytes).map_err(|_| Refusal::field("body", messages::NOT_AN_OBJECT))?;
        let errors = object.twice.into_iter().map(|name| (name, messages::TWICE)).collect();
        Ok(Fields { values: object.values, errors })
    }

    /// A field that must be there.
    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, Text>,
    ) -> Option<T> {
        match self.values.shift_remove(name) {
            Some(Value::Null) | None => self.wrong(name, messages::REQUIRED),
            Some(value) => read(&value).map_or_else(|error| self.wrong(name, error), Some),
        }
    }

    /// A field that may be absent or null. The outer `None` means that it is wrong.
    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, Text>,
    ) -> Option<Option<T>> {
        match self.values.shift_remove(name) {
            Some(Value::Null) | None => Some(None),
            Some(value) => {
                read(&value).map_or_else(|error| self.wrong(name, error), |value| Some(Some(value)))
            }
        }
    }

    /// Notes what is wrong with a field.
    pub(crate) fn wrong<T>(&mut self, name: &str, error: impl Into<Text>) -> Option<T> {
        self.errors.push((name.to_owned(), error.into()));
        None
    }

    /// What was read, if nothing is wrong.
    pub(crate) fn finish<T>(mut self, read: Option<T>) -> Result<T, Refusal> {
        self.errors.extend(self.values.into_iter().map(|(name, _)| (name, messages::UNKNOWN_FIELD)));
        match read {
            Some(read) if self.errors.is_empty() => Ok(read),
            Some(_) | None => Err(Refusal::invalid(self.errors)),
        }
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
        let legal =
            !text.trim().is_empty() && text.chars().count() <= max && !text.chars().any(char::is_control);
        if legal { Ok(text) } else { Err(TextError { max }.into()) }
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

/// The price of a product.
pub(crate) fn price(value: &Value) -> Result<Money, Text> {
    let price = money(value)?;
    if Product::PRICE_MINOR.contains(&price.minor()) { Ok(price) } else { Err(messages::PRICE_RANGE) }
}

/// An id, as a number.
pub(crate) fn id<I: TryFrom<i64, Error = IdError>>(value: &Value) -> Result<I, Text> {
    let number = value.as_number().ok_or(messages::NOT_A_NUMBER)?;
    let number = number.as_i64().ok_or(IdError::OutOfRange)?;
    Ok(I::try_from(number)?)
}

/// An object with the names that came twice, which `serde_json::Map` would hide.
struct Object {
    values: Map<String, Value>,
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
                let mut object = Object { values: Map::new(), twice: Vec::new() };
                while let Some((name, value)) = entries.next_entry::<String, Value>()? {
                    if object.values.insert(name.clone(), value).is_some() && !object.twice.contains(&name) {
                        object.twice.push(name);
                    }
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
