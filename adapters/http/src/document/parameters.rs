//! Parameters that many operations have.

use marketplace::ports::RequestScope;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Required, Schema};
use utoipa::{IntoParams, ToSchema};

use super::kinds;
use crate::once::X_IDEMPOTENCY_KEY;

/// `cursor` and `limit` of a list.
pub(crate) enum Paging {}

impl IntoParams for Paging {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let of = |name: &str, schema: RefOr<Schema>, what: &str| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Query)
                .required(Required::False)
                .description(Some(what))
                .schema(Some(schema))
                .build()
        };
        vec![
            of("cursor", of_kind::<kinds::Cursor>(), "Where the page begins: `nextCursor` of the one before"),
            of("limit", of_kind::<kinds::Limit>(), "How many items it has"),
        ]
    }
}

/// The idempotency key of an operation that is refused without one.
pub(crate) enum RequiredKey {}

impl IntoParams for RequiredKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![idempotency_key(Required::True)]
    }
}

/// What a signature is made of beside the body (Standard Webhooks).
pub(crate) enum Signed {}

impl IntoParams for Signed {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        vec![
            header("webhook-id", "The id of this message", Required::True, text()),
            header(
                "webhook-timestamp",
                "When it was signed, in seconds since 1970",
                Required::True,
                text().pattern(Some("^[0-9]+$")),
            ),
        ]
    }
}

/// The idempotency key; `Idempotency-Key` is another name for it.
pub(super) fn idempotency_key(required: Required) -> Parameter {
    let key = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(RequestScope::MAX_KEY_CHARS))
        .pattern(Some("^[!-~]*$"));
    header(
        X_IDEMPOTENCY_KEY,
        "Under one key a request of a user is done once, and a repeat is given the first answer",
        required,
        key,
    )
}

/// What every operation takes, under the names they have among the components.
pub(super) fn everywhere() -> [(&'static str, Parameter); 3] {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    [
        (
            "TraceId",
            header(
                "X-Trace-Id",
                "The trace the request is in; another is made where it is none",
                Required::False,
                text().pattern(Some("^[A-Za-z0-9_-]{1,64}$")),
            ),
        ),
        ("Traceparent", header("traceparent", "The same by W3C Trace Context", Required::False, text())),
        (
            "Language",
            header(
                "Accept-Language",
                "`zh` for messages in Chinese, else they are in English",
                Required::False,
                text(),
            ),
        ),
    ]
}

fn header(name: &str, what: &str, required: Required, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(required)
        .description(Some(what))
        .schema(Some(schema))
        .build()
}

/// A reference to a kind; the pass over the document sees to it that it is there.
pub(super) fn of_kind<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}
