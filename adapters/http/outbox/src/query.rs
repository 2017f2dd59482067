//! Reads query parameters. Unknown parameters are errors, as in bodies: a misspelled filter would otherwise be ignored.

use axum::extract::{FromRequestParts, Query as RawQuery};
use axum::http::request::Parts;
use utoipa::IntoParams;

use crate::messages::{self, Text};
use crate::refusal::Refusal;
use crate::value_limits::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::values::{ReadsText, camel_case};

/// The query parameters of a route; [`queries!`](crate::queries) declares them.
pub trait Query: IntoParams {
    /// Reads every parameter and records the errors of the invalid ones.
    fn read(parameters: &mut Parameters) -> Self;
}

/// Declares query parameters. A parameter is `name: Type = kind, "description";`: its name in the URL is the name in
/// camelCase; the kind describes the value in the OpenAPI document and parses it into the type ([`ReadsText`]). A parameter
/// that is absent or invalid is `None`.
#[macro_export]
macro_rules! queries {
    ($($query:ident {$($field:ident: $type:ty = $kind:ty, $what:expr;)*})*) => {$(
        pub(crate) struct $query {$(
            pub(crate) $field: Option<$type>,
        )*}

        impl $crate::query::Query for $query {
            fn read(parameters: &mut $crate::query::Parameters) -> $query {
                $(let $field = parameters.read::<$type, $kind>(stringify!($field));)*
                $query { $($field),* }
            }
        }

        impl ::utoipa::IntoParams for $query {
            fn into_params(
                _: impl Fn() -> Option<::utoipa::openapi::path::ParameterIn>,
            ) -> Vec<::utoipa::openapi::path::Parameter> {
                vec![$($crate::openapi::query_parameter::<$kind>(stringify!($field), $what)),*]
            }
        }
    )*};
}

/// The query parameters of one request: [`Parameters::query`] reads all of them.
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
        let RawQuery(values) = RawQuery::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::field("query", messages::READ_FAILED))?;
        Ok(Parameters { values, errors: Vec::new() })
    }
}

impl Parameters {
    /// Reads the parameter with this Rust name; `None` if it is absent or invalid.
    pub fn read<T, K: ReadsText<T>>(&mut self, name: &str) -> Option<T> {
        self.read_named(&camel_case(name), K::EMPTY_IS_ABSENT, K::read_text)
    }

    fn read_named<T>(
        &mut self,
        name: &str,
        empty_is_absent: bool,
        read: impl FnOnce(&str) -> Result<T, Text>,
    ) -> Option<T> {
        let value = self.take(name).filter(|value| !(empty_is_absent && value.is_empty()))?;
        read(&value).map_err(|error| self.errors.push((name.to_owned(), error))).ok()
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

    /// Reads `limit`, the page size.
    fn limit(&mut self) -> u32 {
        let limit = self.read_named("limit", true, |text| match text.parse() {
            Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
            Ok(_) | Err(_) => Err(messages::integer_range(1, i64::from(MAX_LIMIT))),
        });
        limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// Reads `cursor`, the start of the page.
    fn cursor<I: TryFrom<i64>>(&mut self) -> Option<I> {
        self.read_named("cursor", true, |text| {
            let id: i64 = text.parse().map_err(|_| messages::BAD_CURSOR)?;
            I::try_from(id).ok().filter(|_| id > 0).ok_or(messages::BAD_CURSOR)
        })
    }

    /// Reads the parameters of a route. Fails if one is invalid or unknown.
    pub fn query<Q: Query>(mut self) -> Result<Q, Refusal> {
        let query = Q::read(&mut self);
        self.finish()?;
        Ok(query)
    }

    /// Reads the parameters of a list, of which `cursor` and `limit` are the last. Fails if one is invalid or unknown.
    pub fn page<Q: Query, I: TryFrom<i64>>(mut self) -> Result<(Q, Option<I>, u32), Refusal> {
        let query = Q::read(&mut self);
        let (before, limit) = self.finish_page()?;
        Ok((query, before, limit))
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
