//! Schemas of the response envelope and of error responses.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::json;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{
    ArrayBuilder, Components, Content, ContentBuilder, Discriminator, ObjectBuilder, OneOfBuilder, Ref,
    RefOr, Response, ResponseBuilder, Schema,
};

use crate::envelope::Code;
use crate::messages::{self, Text};
use crate::refusal::default_message;

/// Headers of every response, with their component names.
pub(crate) const COMMON_HEADERS: [(&str, &str); 3] =
    [("X-Trace-Id", "TraceId"), ("X-Request-Id", "RequestId"), ("traceparent", "Traceparent")];
/// Headers of rate-limited responses, with their component names.
pub(crate) const RATE_LIMIT_HEADERS: [(&str, &str); 2] =
    [("RateLimit", "RateLimit"), ("RateLimit-Policy", "RateLimitPolicy")];

/// Schema name of the trace id.
pub(crate) const TRACE_ID: &str = "TraceId";
/// Schema name of validation errors.
const FIELD_ERRORS: &str = "FieldErrors";

/// An error response of an operation.
#[derive(Clone)]
pub struct ErrorCase {
    pub(super) status: StatusCode,
    pub(super) code: Code,
    pub(super) what: String,
    /// Whether a layer sends the response; the response is then the same for every operation.
    pub(super) is_from_layer: bool,
}

impl ErrorCase {
    pub(super) fn of_route(status: StatusCode, code: Code, what: &str) -> ErrorCase {
        ErrorCase { status, code, what: what.to_owned(), is_from_layer: false }
    }

    /// An error that a layer sends.
    pub fn of_layer(status: StatusCode, code: Code, what: &str) -> ErrorCase {
        ErrorCase { is_from_layer: true, ..ErrorCase::of_route(status, code, what) }
    }

    /// Component name: the code, with the status appended if it is not the default status of the code.
    fn name(&self) -> String {
        let code = self.code.as_str();
        if self.code.status() == self.status {
            code.to_owned()
        } else {
            format!("{code}_{}", self.status.as_str())
        }
    }

    /// Adds the schema to the components and returns its name.
    fn schema(&self, components: &mut Components) -> String {
        let (fields, data) = if self.names_fields() {
            ("_Fields", Ref::from_schema_name(FIELD_ERRORS).into())
        } else {
            ("", ObjectBuilder::new().schema_type(Type::Null).into())
        };
        let name = format!("Refused_{}{fields}", self.code.as_str());
        components.schemas.insert(name.clone(), envelope(&[self.code], data));
        name
    }

    /// Example message.
    fn message(&self) -> Text {
        if self.code == Code::NOT_FOUND {
            messages::not_found("order")
        } else {
            default_message(self.code, self.status)
        }
    }

    fn example(&self) -> serde_json::Value {
        let errors = json!({ "errors": [{ "field": "price", "message": "must be a number" }] });
        let data = if self.names_fields() { errors } else { serde_json::Value::Null };
        json!({
            "code": self.code.as_str(),
            "message": self.message().in_language(crate::language::Language::English),
            "data": data,
            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        })
    }

    fn names_fields(&self) -> bool {
        self.status == StatusCode::BAD_REQUEST
    }

    fn has_retry_after(&self) -> bool {
        self.code.retry_after_s().is_some()
    }
}

/// The response of one status with all of its error codes. `data` is the schema of the route's own data, if it has any.
/// A response of a layer is the same for every operation and becomes a shared component.
pub(crate) fn response(
    cases: &[ErrorCase],
    data: Option<RefOr<Schema>>,
    components: &mut Components,
) -> RefOr<Response> {
    let (case, data) = match (cases, data) {
        ([case], None) if case.is_from_layer => (case, None),
        (_, data) => return build_response(cases, data, components).into(),
    };
    let name = case.name();
    if !components.responses.contains_key(&name) {
        let response = build_response(cases, data, components);
        components.responses.insert(name.clone(), response.into());
    }
    RefOr::Ref(Ref::new(format!("#/components/responses/{name}")))
}

fn build_response(cases: &[ErrorCase], data: Option<RefOr<Schema>>, components: &mut Components) -> Response {
    let what: Vec<String> =
        cases.iter().map(|case| format!("`{}`: {}", case.code.as_str(), case.what)).collect();
    let mut response = ResponseBuilder::new()
        .description(what.join("; "))
        .content("application/json", content(cases, data, components));
    for (name, component) in COMMON_HEADERS.into_iter().chain(RATE_LIMIT_HEADERS) {
        response = response.header_ref(name, Ref::new(format!("#/components/headers/{component}")));
    }
    if cases.iter().any(ErrorCase::has_retry_after) {
        response = response.header_ref("Retry-After", Ref::new("#/components/headers/RetryAfter"));
    }
    if cases.iter().any(|case| case.code == Code::NOT_AUTHENTICATED) {
        response = response.header_ref("WWW-Authenticate", Ref::new("#/components/headers/Authenticate"));
    }
    response.build()
}

fn content(cases: &[ErrorCase], data: Option<RefOr<Schema>>, components: &mut Components) -> Content {
    if let Some(data) = data {
        let codes: Vec<Code> = cases.iter().map(|case| case.code).collect();
        return Content::new(Some(envelope(&codes, data)));
    }
    let names: BTreeMap<&str, String> =
        cases.iter().map(|case| (case.code.as_str(), case.schema(components))).collect();
    let examples: BTreeMap<_, _> = cases
        .iter()
        .map(|case| (case.code.as_str(), ExampleBuilder::new().value(Some(case.example())).build()))
        .collect();
    ContentBuilder::new().schema(Some(one_of(names))).examples_from_iter(examples).build()
}

/// One of these envelopes, with `code` as discriminator, so that generated clients can narrow the type by the code.
fn one_of(names: BTreeMap<&str, String>) -> RefOr<Schema> {
    let mut names: Vec<(&str, String)> = names.into_iter().collect();
    if names.len() == 1
        && let Some((_, only)) = names.pop()
    {
        return Ref::from_schema_name(only).into();
    }
    let pointer = |name: &str| format!("#/components/schemas/{name}");
    let mapping = names.iter().map(|(code, name)| (*code, pointer(name)));
    let discriminator = Discriminator::with_mapping("code", mapping.collect::<Vec<_>>());
    let either =
        names.iter().fold(OneOfBuilder::new(), |either, (_, name)| either.item(Ref::new(pointer(name))));
    either.discriminator(Some(discriminator)).into()
}

/// Schema of the envelope with these codes and this data.
pub(crate) fn envelope(codes: &[Code], data: RefOr<Schema>) -> RefOr<Schema> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let names: Vec<&str> = codes.iter().map(|code| code.name()).collect();
    let named = ExtensionsBuilder::new().add("x-enum-varnames", names).build();
    let codes = codes.iter().map(|code| code.as_str()).collect::<Vec<_>>();
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("code", text().enum_values(Some(codes)).extensions(Some(named)))
        .property("message", text().min_length(Some(1)))
        .property("data", data)
        .property("traceId", Ref::from_schema_name(TRACE_ID))
        .required("code")
        .required("message")
        .required("data")
        .required("traceId")
        .into()
}

/// Schemas shared by responses.
pub(crate) fn schemas() -> [(&'static str, RefOr<Schema>); 2] {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let error = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("field", text().description(Some("Path of the field, such as `filter.status`")))
        .property("message", text())
        .required("field")
        .required("message");
    let errors = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some("All validation errors of the request"))
        .property("errors", ArrayBuilder::new().items(error).min_items(Some(1)))
        .required("errors");
    let trace_id = text().pattern(Some("^[A-Za-z0-9_-]{1,64}$")).description(Some("Trace id of the request"));
    [(FIELD_ERRORS, errors.into()), (TRACE_ID, trace_id.into())]
}
