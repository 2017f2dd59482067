//! Parameters shared by several operations.

use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, Ref, RefOr, Required, Schema};
use utoipa::{IntoParams, ToSchema};

use super::kinds;
use crate::values::camel_case;

/// Description of the parameter `tenantId` of operator routes.
pub const TENANT: &str = "Tenant; default: the operator's own. Only the role `platform` may select another";
/// Description of the response to an operator who selects another tenant.
pub const TENANT_NOT_FOUND: &str = "Tenant not found, or not accessible to the caller";

/// `cursor` and `limit` of a list.
pub enum Paging {}

impl IntoParams for Paging {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            query_parameter::<kinds::Cursor>(
                "cursor",
                "Start of the page: `nextCursor` of the previous page",
            ),
            query_parameter::<kinds::Limit>("limit", "Page size"),
        ]
    }
}

/// Parameters of every operation, by their component names.
pub(super) fn common_parameters() -> [(&'static str, Parameter); 4] {
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
            "RequestId",
            header(
                "X-Request-Id",
                "Request id, for the search in logs; if it is absent or invalid, a new request id is used",
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

/// A request header.
pub fn header(name: &str, what: &str, required: Required, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(required)
        .description(Some(what))
        .schema(Some(schema))
        .build()
}

/// The query parameter with this Rust name. A kind is a reference to its schema; a primitive type is described in place.
pub fn query_parameter<K: ToSchema>(name: &str, what: &str) -> Parameter {
    let schema = match K::schema() {
        RefOr::T(Schema::Object(object)) if K::name() == "bool" => object.into(),
        RefOr::T(_) | RefOr::Ref(_) => Ref::from_schema_name(K::name()).into(),
    };
    ParameterBuilder::new()
        .name(camel_case(name))
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(what))
        .schema(Some::<RefOr<Schema>>(schema))
        .build()
}
