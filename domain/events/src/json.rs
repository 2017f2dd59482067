//! JSON whose objects keep the order of their fields and whose numbers keep all their digits.
//!
//! [`serde_json::Value`] does so only with the features `preserve_order` and `arbitrary_precision`, which change how
//! every crate of a program reads JSON. [`Json`] needs neither of them, and is the same with and without them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

/// Maximum number of nested arrays and objects, as in `serde_json`: deeper text is rejected.
const MAX_DEPTH: u32 = 127;

/// A JSON value. Two objects with the same fields are equal in any order; two numbers are equal if their text is.
#[derive(Debug, Clone)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as text.
    Number(JsonNumber),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// The fields of an object, in their order; names are unique. [`Json::object`] creates an object from fields with
    /// any names.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text. Of several fields with the same name the last value is kept, at the position of the first.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        read(serde_json::from_str(text)?, MAX_DEPTH)
    }

    /// An object. Of several fields with the same name the last value is kept, at the position of the first.
    pub fn object(fields: Vec<(String, Json)>) -> Json {
        let names: BTreeSet<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        if names.len() == fields.len() {
            return Json::Object(fields);
        }
        let mut positions: BTreeMap<String, usize> = BTreeMap::new();
        let mut unique: Vec<(String, Json)> = Vec::new();
        for (name, value) in fields {
            match positions.get(&name).and_then(|position| unique.get_mut(*position)) {
                Some(field) => field.1 = value,
                None => {
                    positions.insert(name.clone(), unique.len());
                    unique.push((name, value));
                }
            }
        }
        Json::Object(unique)
    }

    /// A field of an object. `None` if the value is not an object or has no such field.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(own, _)| own == name).map(|(_, value)| value),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        }
    }

    /// Takes a field out of an object.
    pub(crate) fn into_field(self, name: &str) -> Option<Json> {
        match self {
            Json::Object(fields) => fields.into_iter().find(|(own, _)| own == name).map(|(_, value)| value),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        }
    }

    /// The integer, if the value is a number without fraction and exponent that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(number) => number.as_i64(),
            Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// The text, if the value is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Json::Object(_))
    }
}

/// Reads a valid JSON text. Numbers are taken from the text, because serde's data model has none with all their digits.
fn read(raw: &RawValue, depth: u32) -> Result<Json, serde_json::Error> {
    let text = raw.get();
    let inner = || -> Result<u32, serde_json::Error> {
        depth.checked_sub(1).ok_or_else(|| de::Error::custom("recursion limit exceeded"))
    };
    Ok(match text.bytes().next() {
        Some(b'{') => {
            let depth = inner()?;
            let RawFields(fields) = serde_json::from_str(text)?;
            let fields = fields.into_iter().map(|(name, raw)| Ok((name, read(raw, depth)?)));
            Json::object(fields.collect::<Result<_, serde_json::Error>>()?)
        }
        Some(b'[') => {
            let depth = inner()?;
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            Json::Array(items.into_iter().map(|raw| read(raw, depth)).collect::<Result<_, _>>()?)
        }
        Some(b'"') => Json::String(serde_json::from_str(text)?),
        Some(b't') => Json::Bool(true),
        Some(b'f') => Json::Bool(false),
        Some(b'n') => Json::Null,
        _ => Json::Number(JsonNumber::of(text)),
    })
}

/// The fields of an object, in the order of the text; names can occur several times.
struct RawFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(RawFields(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Null, Json::Null) => true,
            (Json::Bool(one), Json::Bool(other)) => one == other,
            (Json::Number(one), Json::Number(other)) => one == other,
            (Json::String(one), Json::String(other)) => one == other,
            (Json::Array(one), Json::Array(other)) => one == other,
            (Json::Object(one), Json::Object(other)) => by_name(one) == by_name(other),
            _ => false,
        }
    }
}

impl Eq for Json {}

fn by_name(fields: &[(String, Json)]) -> BTreeMap<&str, &Json> {
    fields.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::String(text)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

macro_rules! from_integers {
    ($($integer:ty)+) => {$(
        impl From<$integer> for Json {
            fn from(number: $integer) -> Json {
                Json::Number(JsonNumber(number.to_string().into()))
            }
        }
    )+};
}

from_integers!(i64 u16 usize);

/// An array.
impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Json {
        Json::Array(items.into_iter().map(Into::into).collect())
    }
}

/// Writes one line, without insignificant whitespace.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(number) => number.serialize(serializer),
            Json::String(text) => serializer.serialize_str(text),
            Json::Array(items) => serializer.collect_seq(items),
            Json::Object(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, value))),
        }
    }
}

/// Only for deserializers of `serde_json`.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        read(&raw, MAX_DEPTH).map_err(de::Error::custom)
    }
}

/// A number in a [`Json`], with all its digits. An exponent has a sign: `1e5` is read as `1e+5`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonNumber(Box<str>);

impl JsonNumber {
    fn of(text: &str) -> JsonNumber {
        JsonNumber(match text.split_once(['e', 'E']) {
            None => text.into(),
            Some((digits, exponent)) => {
                let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
                format!("{digits}e{sign}{exponent}").into()
            }
        })
    }

    /// The text of the number.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number, if it is an integer without exponent that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }
}

impl Serialize for JsonNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_i64() {
            Some(number) if number != 0 => serializer.serialize_i64(number),
            // Zero can be written as -0.
            Some(_) | None => {
                RawValue::from_string(self.0.to_string()).map_err(ser::Error::custom)?.serialize(serializer)
            }
        }
    }
}
