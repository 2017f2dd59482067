//! Parameters shared by several operations of the marketplace.

use handover_http::header_names::X_IDEMPOTENCY_KEY;
use handover_http::openapi::header;
use marketplace::ports::RequestScope;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, Required};

/// Requires an idempotency key: without a key, a retry cannot be distinguished from a second order or payment.
pub(crate) struct RequiredKey;

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
