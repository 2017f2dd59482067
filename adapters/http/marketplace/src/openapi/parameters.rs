//! Parameters shared by several operations.

use marketplace::ports::RequestScope;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Required, Schema};
use utoipa::{IntoParams, ToSchema};

use super::kinds;
use crate::header_names::X_IDEMPOTENCY_KEY;

/// Description of the parameter `tenantId` of operator routes.
pub(crate) const TENANT: &str =
    "Tenant; default: the operator's own. Only the role `platform` may select another";
/// Description of the response to an operator who selects another tenant.
pub(crate) const TENANT_NOT_FOUND: &str = "Tenant not found, or not accessible to the caller";

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
            of("cursor", of_kind::<kinds::Cursor>(), "Start of the page: `nextCursor` of the previous page"),
            of("limit", of_kind::<kinds::Limit>(), "Page size"),
        ]
    }
}

/// The idempotency key of an operation that requires one.
pub(crate) enum RequiredKey {}

impl IntoParams for RequiredKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![idempotency_key(Required::True)]
    }
}

/// The signed headers of a callback (Standard Webhooks).
pub(crate) enum Signed {}

impl IntoParams for Signed {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        vec![
            header("webhook-id", "Message id", Required::True, text()),
            header(
                "webhook-timestamp",
                "Time of the signature, in seconds since 1970",
                Required::True,
                text().pattern(Some("^[0-9]+$")),
            ),
        ]
    }
}

/// The idempotency key; the header `Idempotency-Key` is also accepted.
pub(super) fn idempotency_key(required: Required) -> Parameter {
    let key = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(RequestScope::MAX_KEY_CHARS))
        .pattern(Some("^[!-~]*$"));
    header(
        X_IDEMPOTENCY_KEY,
        "A request with this key is executed once per user and route; a repeated request gets the stored response",
        required,
        key,
    )
}

/// Parameters of every operation, by their component names.
pub(super) fn common_parameters() -> [(&'static str, Parameter); 3] {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    [
        (
            "TraceId",
            header(
                "X-Trace-Id",
                "Trace id of the request; if it is absent or invalid, the trace id of `traceparent` or a new trace id is used",
                Required::False,
                text().pattern(Some("^[A-Za-z0-9_-]{1,64}$")),
            ),
        ),
        (
            "Traceparent",
            header("traceparent", "Trace and parent span (W3C Trace Context)", Required::False, text()),
        ),
        (
            "Language",
            header(
                "Accept-Language",
                "`zh` for messages in Chinese; default: English",
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

/// Reference to a schema of [`kinds`]; `layers.rs` adds it to the components.
pub(super) fn of_kind<T: ToSchema>() -> RefOr<Schema> {
    Ref::from_schema_name(T::name()).into()
}
