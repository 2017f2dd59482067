//! Adds the effects of the layers to every operation: request headers, error responses, response headers and the envelope.

use std::collections::BTreeMap;

use axum::http::{Method, StatusCode};
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{
    Components, Content, Header, ObjectBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema,
};

use super::error_responses::{
    self, COMMON_HEADERS, ErrorCase, RATE_LIMIT_HEADERS, envelope, response, schemas,
};
use super::kinds;
use super::parameters::common_parameters;
use crate::envelope::Code;
use crate::refusal::BAD_TOKEN_CHALLENGE;

const JSON: &str = "application/json";
/// The only path whose JSON response has no envelope.
const DOCUMENT: &str = "/openapi.json";

/// Component name of the response to a head that is too large.
const HEAD_TOO_LARGE: &str = "HeadTooLarge";

/// The API of an application, as far as its layers are described.
pub struct Api {
    /// Prefix of the paths with authentication and rate limit.
    pub prefix: &'static str,
    /// Prefixes of the operators' routes.
    pub operators: &'static [&'static str],
    /// What the application's own layers add to an operation of the API.
    pub extend: fn(&Method, &Operation) -> Additions,
}

/// What a layer adds to an operation.
#[derive(Default)]
pub struct Additions {
    /// Request parameters.
    pub parameters: Vec<Parameter>,
    /// Error responses.
    pub errors: Vec<ErrorCase>,
    /// Headers of success responses, with their component names.
    pub headers: Vec<(&'static str, &'static str)>,
}

/// Adds the layers to the document.
pub fn add_layers(document: &mut OpenApi, api: &Api) {
    let mut components = document.components.take().unwrap_or_default();
    components.schemas.extend(schemas().map(|(name, schema)| (name.to_owned(), schema)));
    // Only parameters use these schemas; utoipa collects only the schemas of bodies and responses.
    components.schemas.extend([kind::<kinds::Cursor>(), kind::<kinds::Limit>()]);
    components
        .parameters
        .extend(common_parameters().map(|(name, parameter)| (name.to_owned(), parameter.into())));
    components.headers.extend(headers().map(|(name, header)| (name.to_owned(), header.into())));
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            OperationLayers::of(api, path, &method, operation).describe(operation, &mut components);
        }
    }
    // Every operation can return 431. The server sends this response before the request is parsed, so it has no
    // envelope.
    let too_large =
        ResponseBuilder::new().description("the headers are larger than 32 KiB; the response has no body");
    components.responses.insert(HEAD_TOO_LARGE.to_owned(), too_large.build().into());
    document.components = Some(components);
}

/// The schema of a kind of value that only parameters use, for the components of a document.
pub fn kind<T: ToSchema>() -> (String, RefOr<Schema>) {
    (T::name().into_owned(), T::schema())
}

/// The operations of a path with their methods; the API uses no other methods.
pub fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let get = item.get.as_mut();
    let post = item.post.as_mut();
    let patch = item.patch.as_mut();
    let delete = item.delete.as_mut();
    [(Method::GET, get), (Method::POST, post), (Method::PATCH, patch), (Method::DELETE, delete)]
        .into_iter()
        .filter_map(|(method, operation)| operation.map(|operation| (method, operation)))
}

/// The layers in front of an operation.
struct OperationLayers {
    /// Route of the API: authentication, rate limit, and use of the database.
    is_api: bool,
    /// Requires the role of an operator.
    is_operator: bool,
    /// Layers of the application.
    additions: Additions,
    has_body: bool,
    /// The JSON response has an envelope.
    enveloped: bool,
}

impl OperationLayers {
    fn of(api: &Api, path: &str, method: &Method, operation: &Operation) -> OperationLayers {
        let is_api = path.starts_with(api.prefix);
        OperationLayers {
            is_api,
            is_operator: api.operators.iter().any(|prefix| path.starts_with(prefix)),
            additions: if is_api { (api.extend)(method, operation) } else { Additions::default() },
            has_body: operation.request_body.is_some(),
            enveloped: path != DOCUMENT,
        }
    }

    fn describe(mut self, operation: &mut Operation, components: &mut Components) {
        let parameters = operation.parameters.get_or_insert_default();
        parameters.extend(std::mem::take(&mut self.additions.parameters).into_iter().map(RefOr::T));
        parameters.extend(
            common_parameters()
                .map(|(name, _)| RefOr::Ref(Ref::new(format!("#/components/parameters/{name}")))),
        );
        let mut errors: BTreeMap<StatusCode, Vec<ErrorCase>> = BTreeMap::new();
        let mut error_data = BTreeMap::new();
        for (status, described) in std::mem::take(&mut operation.responses.responses) {
            let (Ok(code), RefOr::T(mut described)) = (status.parse::<StatusCode>(), described) else {
                continue;
            };
            if code.is_success() {
                self.complete_success(&mut described);
                operation.responses.responses.insert(status, described.into());
            } else {
                let case = ErrorCase::of_route(code, code_of(&described, code), &described.description);
                errors.entry(code).or_default().push(case);
                error_data.extend(data_of(&described).map(|data| (code, data)));
            }
        }
        for case in self.layer_errors() {
            errors.entry(case.status).or_default().push(case);
        }
        for (status, cases) in errors {
            let response = response(&cases, error_data.remove(&status), components);
            operation.responses.responses.insert(status.as_str().to_owned(), response);
        }
        let too_large = Ref::new(format!("#/components/responses/{HEAD_TOO_LARGE}"));
        operation.responses.responses.insert("431".to_owned(), RefOr::Ref(too_large));
        operation.request_body.iter_mut().for_each(never_null);
    }

    /// Adds envelope and headers to a success response.
    fn complete_success(&self, response: &mut Response) {
        if let (true, Some(data)) = (self.enveloped, data_of(response)) {
            response
                .content
                .insert(JSON.to_owned(), Content::new(Some(envelope(&[Code::DONE], data))).into());
        }
        let limited: &[_] = if self.is_api { &RATE_LIMIT_HEADERS } else { &[] };
        for (name, component) in COMMON_HEADERS.iter().chain(limited).chain(&self.additions.headers) {
            response.headers.insert((*name).to_owned(), of_components(component));
        }
    }

    /// Error responses of the layers.
    fn layer_errors(&self) -> Vec<ErrorCase> {
        let mut errors = Vec::new();
        let mut add = |status, code, what: &str| errors.push(ErrorCase::of_layer(status, code, what));
        add(
            StatusCode::GATEWAY_TIMEOUT,
            Code::OUTCOME_UNKNOWN,
            "the request timed out or the connection to the database was lost: the request may still complete; repeat it \
             with the same idempotency key",
        );
        add(
            StatusCode::INTERNAL_SERVER_ERROR,
            Code::INTERNAL,
            "internal error; the response contains only the trace id",
        );
        if !self.is_api {
            return errors;
        }
        add(StatusCode::BAD_REQUEST, Code::INVALID, "the input is not valid; `data.errors` names each field");
        let unauthenticated =
            "the token is missing or invalid; for callbacks: the signature is missing, invalid or too old";
        add(StatusCode::UNAUTHORIZED, Code::NOT_AUTHENTICATED, unauthenticated);
        if self.is_operator {
            add(StatusCode::FORBIDDEN, Code::NOT_ALLOWED, "the caller is not an operator");
        }
        if self.has_body {
            add(StatusCode::PAYLOAD_TOO_LARGE, Code::INVALID, "the body is larger than 64 KiB");
            let unsupported = "the content type is not JSON, or the body is encoded";
            add(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::INVALID, unsupported);
            let slow = "the body took too long to arrive; nothing was changed";
            add(StatusCode::REQUEST_TIMEOUT, Code::INVALID, slow);
        }
        add(
            StatusCode::TOO_MANY_REQUESTS,
            Code::RATE_LIMITED,
            "too many requests; retry after the time in `Retry-After`",
        );
        let unavailable = "a dependency is unavailable, or the server is overloaded; nothing was changed";
        add(StatusCode::SERVICE_UNAVAILABLE, Code::UNAVAILABLE, unavailable);
        errors.extend(self.additions.errors.iter().cloned());
        errors
    }
}

/// The error code of a route's response: that of its status, or the one that it names as `x-code`.
fn code_of(response: &Response, status: StatusCode) -> Code {
    let named = response.extensions.as_ref().and_then(|extensions| extensions.get("x-code"));
    let is_quota = named.is_some_and(|code| code == Code::QUOTA_EXCEEDED.as_str());
    if is_quota { Code::QUOTA_EXCEEDED } else { Code::of_status(status) }
}

/// The schema of a response's JSON content.
fn data_of(response: &Response) -> Option<RefOr<Schema>> {
    match response.content.get(JSON)? {
        RefOr::T(content) => content.schema.clone(),
        RefOr::Ref(_) => None,
    }
}

/// Removes `null` from the schema of an optional body: the body may be absent, but utoipa also allows null.
fn never_null(body: &mut RefOr<RequestBody>) {
    let RefOr::T(body) = body else { return };
    for content in body.content.values_mut() {
        if let RefOr::T(content) = content
            && let Some(RefOr::T(Schema::OneOf(either))) = &content.schema
        {
            content.schema = either.items.first().cloned();
        }
    }
}

fn of_components(header: &str) -> RefOr<Header> {
    RefOr::Ref(Ref::new(format!("#/components/headers/{header}")))
}

fn headers() -> [(&'static str, Header); 7] {
    let of = |schema: RefOr<Schema>, what: &str| {
        HeaderBuilder::new().schema(Some(schema)).description(Some(what)).build()
    };
    let text =
        |pattern: &'static str| ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into();
    let challenge = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["Bearer", BAD_TOKEN_CHALLENGE]))
        .into();
    let limit = "Remaining quota (`RateLimit` of the IETF httpapi draft): `r` requests; the full quota is available again after `t` seconds. In a 429 response, the next request is allowed after `t` seconds";
    let policy = "Limit of this route: a burst of `q` requests, and `q` requests per `w` seconds";
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).into();
    [
        ("TraceId", of(Ref::from_schema_name(error_responses::TRACE_ID).into(), "Trace id of the request")),
        ("RequestId", of(text("^[A-Za-z0-9_-]{1,64}$"), "Id of the request, for the search in logs")),
        ("RetryAfter", of(seconds, "Time to wait before a retry, in seconds")),
        (
            "Traceparent",
            of(
                text("^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"),
                "Trace and span of the request (W3C Trace Context)",
            ),
        ),
        ("RateLimit", of(text("^\"[a-z]+\";r=[0-9]+;t=[0-9]+$"), limit)),
        ("RateLimitPolicy", of(text("^\"[a-z]+\";q=[0-9]+;w=[0-9]+$"), policy)),
        (
            "Authenticate",
            of(challenge, "Authentication scheme, with an error if the token was rejected (RFC 6750)"),
        ),
    ]
}
