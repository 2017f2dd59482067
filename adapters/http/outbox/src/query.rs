//! Reads query parameters. Unknown parameters are errors, as in bodies: a misspelled filter would otherwise be ignored.

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use handover_events::{TenantId, UnknownName};

use crate::messages::{self, Text};
use crate::refusal::Refusal;
use crate::value_limits::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::values;

/// The query parameters of one request. Read each, then call [`Parameters::finish`]. An empty parameter counts as absent,
/// except for those that are read by [`Parameters::read_even_if_empty`].
pub struct Parameters {
    values: Vec<(String, String)>,
    errors: Vec<(String, Text)>,
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        if !parts.uri.query().is_none_or(is_percent_encoded) {
            return Err(Refusal::field("query", messages::BAD_PERCENT));
        }
        let Query(values) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::field("query", messages::READ_FAILED))?;
        Ok(Parameters { values, errors: Vec::new() })
    }
}

impl Parameters {
    /// Reads a parameter; `None` if it is absent or invalid.
    pub fn read<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, Text>) -> Option<T> {
        let value = self.take(name).filter(|value| !value.is_empty())?;
        self.checked(name, &value, read)
    }

    /// Reads a parameter whose empty value is an error; `None` if it is absent or invalid.
    pub fn read_even_if_empty<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, Text>,
    ) -> Option<T> {
        let value = self.take(name)?;
        self.checked(name, &value, read)
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let mut given: Vec<String> =
            self.values.extract_if(.., |(n, _)| n == name).map(|(_, value)| value).collect();
        let value = given.pop()?;
        if !given.is_empty() {
            self.errors.push((name.to_owned(), messages::DUPLICATE));
        }
        Some(value)
    }

    fn checked<T>(
        &mut self,
        name: &str,
        value: &str,
        read: impl FnOnce(&str) -> Result<T, Text>,
    ) -> Option<T> {
        read(value).map_err(|error| self.errors.push((name.to_owned(), error))).ok()
    }

    /// Reads the name of an enum variant.
    pub fn named<T: std::str::FromStr<Err = UnknownName>>(&mut self, name: &str) -> Option<T> {
        self.read(name, values::name)
    }

    /// Reads an RFC 3339 timestamp. In a query, an unescaped `+` is a space.
    pub fn time(&mut self, name: &str) -> Option<DateTime<Utc>> {
        self.read(name, |text| {
            values::time(text).map_err(|error| {
                let with_plus = text.replace(' ', "+");
                let is_unescaped = with_plus != text && values::time(&with_plus).is_ok();
                if is_unescaped { messages::PLUS_NOT_ESCAPED } else { error }
            })
        })
    }

    /// Reads 1 to `max` visible ASCII characters.
    pub fn visible_ascii(&mut self, name: &str, max: usize) -> Option<String> {
        self.read(name, |text| values::visible_ascii(text, max))
    }

    /// Reads `tenantId`.
    pub fn tenant(&mut self) -> Option<TenantId> {
        self.read("tenantId", |text| Ok(text.parse::<TenantId>()?))
    }

    /// Reads `limit`, the page size.
    fn limit(&mut self) -> u32 {
        let limit = self.read("limit", |text| match text.parse() {
            Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
            Ok(_) | Err(_) => Err(messages::integer_range(1, i64::from(MAX_LIMIT))),
        });
        limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// Reads `cursor`, the start of the page.
    fn cursor<I: TryFrom<i64>>(&mut self) -> Option<I> {
        self.read("cursor", |text| {
            let id: i64 = text.parse().map_err(|_| messages::BAD_CURSOR)?;
            I::try_from(id).ok().filter(|_| id > 0).ok_or(messages::BAD_CURSOR)
        })
    }

    /// Reads `cursor` and `limit`, the last parameters of a list, and calls [`Parameters::finish`].
    pub fn finish_page<I: TryFrom<i64>>(mut self) -> Result<(Option<I>, u32), Refusal> {
        let before = self.cursor();
        let limit = self.limit();
        self.finish()?;
        Ok((before, limit))
    }

    /// Fails if a parameter was invalid or was not read.
    pub fn finish(mut self) -> Result<(), Refusal> {
        self.errors.extend(self.values.into_iter().map(|(name, _)| (name, messages::UNKNOWN_FIELD)));
        if self.errors.is_empty() { Ok(()) } else { Err(Refusal::invalid(self.errors)) }
    }
}

/// Whether the text is percent-encoded UTF-8. The parser of the query would read `%zz` as text and an invalid sequence as
/// U+FFFD.
fn is_percent_encoded(text: &str) -> bool {
    let mut rest = text.as_bytes();
    let mut decoded = Vec::with_capacity(rest.len());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let byte = match (digit(0), digit(1)) {
            (Some(high), Some(low)) => u8::try_from(high * 16 + low).unwrap_or_default(),
            (Some(_) | None, None) | (None, Some(_)) => return false,
        };
        decoded.push(byte);
        rest = after.get(2..).unwrap_or_default();
    }
    std::str::from_utf8(&decoded).is_ok()
}
