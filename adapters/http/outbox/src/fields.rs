//! Reads the fields of a JSON object and collects all validation errors.
//!
//! **Invariant:** unknown and duplicate fields are errors, in nested objects too. [`Fields::parse_known`] alone ignores
//! unknown fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::messages::{self, Text};
use crate::refusal::Refusal;
use crate::values::{Reads, camel_case, text};

/// A request body; `bodies!` declares it.
pub trait Body {
    /// Reads every field and records the errors of the missing and invalid ones.
    fn read(fields: &mut Fields) -> Self;
}

/// A kind of value that a field of a body can have; reads the field into a `T`.
pub trait ReadField<T> {
    /// Reads the field with this Rust name. `None` if it is missing or invalid; the error is recorded.
    fn read(fields: &mut Fields, name: &str) -> Option<T>;
}

impl<T, K: Reads<T>> ReadField<T> for K {
    fn read(fields: &mut Fields, name: &str) -> Option<T> {
        fields.required(&camel_case(name), K::read)
    }
}

/// A field that may be absent or null.
impl<T, K: Reads<T>> ReadField<Option<T>> for Option<K> {
    fn read(fields: &mut Fields, name: &str) -> Option<Option<T>> {
        fields.optional(&camel_case(name), K::read)
    }
}

/// Change of a value that can be removed: a field that is absent keeps it, null removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// The field is absent.
    Keep,
    /// The field is null.
    Remove,
    /// The new value.
    Set(T),
}

impl<T> Change<T> {
    /// The new value; an inner `None` removes the value.
    pub fn into_option(self) -> Option<Option<T>> {
        match self {
            Change::Keep => None,
            Change::Remove => Some(None),
            Change::Set(value) => Some(Some(value)),
        }
    }
}

impl<T, K: Reads<T>> ReadField<Change<T>> for Option<K> {
    fn read(fields: &mut Fields, name: &str) -> Option<Change<T>> {
        let name = camel_case(name);
        let is_given = fields.is_given(&name);
        Some(match fields.optional(&name, K::read)? {
            Some(value) => Change::Set(value),
            None if is_given => Change::Remove,
            None => Change::Keep,
        })
    }
}

/// An object whose fields have any names, and strings as values; no two names differ only in case.
struct Texts(Option<BTreeMap<String, String>>);

impl Body for Texts {
    fn read(fields: &mut Fields) -> Texts {
        let mut texts = BTreeMap::new();
        let mut names = BTreeSet::new();
        let mut is_valid = true;
        for (name, field) in std::mem::take(&mut fields.values) {
            let value = match text(&field.value) {
                Ok(_) if !names.insert(name.to_ascii_lowercase()) => Err(messages::DUPLICATE),
                Ok(value) => Ok(value.to_owned()),
                Err(error) => Err(error),
            };
            match value {
                Ok(value) => drop(texts.insert(name, value)),
                Err(error) => is_valid = fields.reject::<()>(&name, error).is_some(),
            }
        }
        Texts(is_valid.then_some(texts))
    }
}

/// Declares one body; `bodies!` adds the handling of unknown fields.
#[macro_export]
macro_rules! request_body {
    (
        $(#[$attribute:meta])*
        $body:ident {$(
            $(#[$field_attribute:meta])*
            $field:ident: $type:ty = $kind:ty,
        )*}
    ) => {
        #[derive(::utoipa::ToSchema)]
        $(#[$attribute])*
        pub(crate) struct $body {$(
            $(#[$field_attribute])*
            #[schema(value_type = $kind)]
            pub(crate) $field: Option<$type>,
        )*}

        impl $crate::fields::Body for $body {
            fn read(fields: &mut $crate::fields::Fields) -> $body {
                $(let $field = <$kind as $crate::fields::ReadField<$type>>::read(fields, stringify!($field));)*
                $body { $($field),* }
            }
        }
    };
}

/// Declares bodies. A field is `name: Type = kind`: the JSON name is the name in camelCase; the kind describes the
/// value in the OpenAPI document and parses it into the type ([`Reads`](crate::values::Reads)). A field that is missing or invalid is
/// `None`, and its error is recorded.
#[macro_export]
macro_rules! bodies {
    ($($(#[$attribute:meta])* $body:ident $fields:tt)*) => {$(
        $crate::request_body! {
            $(#[$attribute])*
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            $body $fields
        }
    )*};
}

/// A body that was read, with its fields' errors.
pub struct Parsed<B> {
    body: B,
    fields: Fields,
}

impl<B: Body> Parsed<B> {
    /// Reads the fields.
    pub fn new(mut fields: Fields) -> Parsed<B> {
        Parsed { body: B::read(&mut fields), fields }
    }

    /// Builds a command; `build` returns `None` if a field that it needs is invalid, and may record more errors. Fails with
    /// all validation errors.
    pub fn command<C>(mut self, build: impl FnOnce(B, &mut Fields) -> Option<C>) -> Result<C, Refusal> {
        let command = build(self.body, &mut self.fields);
        self.fields.finish(command)
    }
}

/// The fields of one object.
pub struct Fields {
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
        let object = Object::parse(bytes)?;
        Fields::from_object(object, String::new()).map_err(|(name, text)| Refusal::field(&name, text))
    }

    /// Parses a JSON object and ignores all fields except those with these Rust names.
    pub fn parse_known(bytes: &[u8], names: &[&str]) -> Result<Fields, Refusal> {
        let Object { mut values, mut duplicates } = Object::parse(bytes)?;
        let known: Vec<String> = names.iter().map(|name| camel_case(name)).collect();
        values.retain(|(name, _)| known.contains(name));
        duplicates.retain(|name| known.contains(name));
        let object = Object { values, duplicates };
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
    fn required<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, Text>) -> Option<T> {
        match self.take(name) {
            None => self.reject(name, messages::REQUIRED),
            Some(field) => read(&field.value).map_or_else(|error| self.reject(name, error), Some),
        }
    }

    /// Reads a field that may be absent or null. The outer `None` means that it is invalid.
    fn optional<T>(&mut self, name: &str, read: impl FnOnce(&Value) -> Result<T, Text>) -> Option<Option<T>> {
        match self.take(name) {
            None => Some(None),
            Some(field) => {
                read(&field.value).map_or_else(|error| self.reject(name, error), |value| Some(Some(value)))
            }
        }
    }

    /// Reads a nested object that may be absent or null. The outer `None` means that the object or one of its fields is
    /// invalid.
    pub fn object<B: Body, T>(
        &mut self,
        name: &str,
        build: impl FnOnce(B, &mut Fields) -> Option<T>,
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
        let body = B::read(&mut inner);
        let value = build(body, &mut inner);
        let errors = inner.into_errors();
        let is_valid = errors.is_empty();
        self.errors.extend(errors);
        value.filter(|_| is_valid).map(Some)
    }

    /// Whether the field is present, even as null.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.values.iter().any(|(given, _)| given == name)
    }

    /// Reads a nested object with any names and strings as values, which may be absent or null.
    pub(crate) fn texts(&mut self, name: &str) -> Option<Option<BTreeMap<String, String>>> {
        self.object(name, |Texts(texts), _| texts)
    }

    /// Records a validation error of a field, or of the object itself if the name is empty.
    pub fn reject<T>(&mut self, name: &str, error: impl Into<Text>) -> Option<T> {
        let name = format!("{}{name}", self.within);
        self.errors.push((name.trim_end_matches('.').to_owned(), error.into()));
        None
    }

    /// Returns the value that was read, or all validation errors.
    fn finish<T>(self, read: Option<T>) -> Result<T, Refusal> {
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

/// A parsed object with its duplicate names, which `serde_json::Map` would hide. Of duplicates, the last value is stored.
struct Object {
    values: Vec<(String, Box<RawValue>)>,
    duplicates: Vec<String>,
}

impl Object {
    fn parse(bytes: &[u8]) -> Result<Object, Refusal> {
        serde_json::from_slice(bytes).map_err(|error| {
            let is_json = error.is_data();
            let text = if is_json {
                messages::NOT_AN_OBJECT
            } else {
                messages::not_json(error.line(), error.column())
            };
            Refusal::field("body", text)
        })
    }
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
                let mut repeated = BTreeSet::new();
                while let Some((name, value)) = entries.next_entry::<String, Box<RawValue>>()? {
                    let entry = indexes.get(&name).and_then(|index| object.values.get_mut(*index));
                    if let Some((_, last)) = entry {
                        *last = value;
                        if repeated.insert(name.clone()) {
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
