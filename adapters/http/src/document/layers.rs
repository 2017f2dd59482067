//! What stands in front of the routes, for every operation: the headers it takes, the ways in which it refuses, the
//! envelope around what a route shows.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::Type;
use utoipa::openapi::{
    Components, Content, Header, ObjectBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder,
    Schema,
};

use super::kinds;
use super::parameters::{everywhere, idempotency_key};
use super::refused::{self, Refused, envelope, response, schemas};
use crate::envelope::Code;
use crate::once::X_IDEMPOTENCY_KEY;
use crate::refusal::BAD_TOKEN_CHALLENGE;

const JSON: &str = "application/json";
/// The one address that answers with JSON of its own.
const DOCUMENT: &str = "/openapi.json";

/// The answer to a head that is too large, among the components.
const HEAD_TOO_LARGE: &str = "HeadTooLarge";

/// Headers of answers, and what is said of each among the components.
pub(super) const OF_EVERY_ANSWER: [(&str, &str); 2] =
    [("X-Trace-Id", "TraceId"), ("traceparent", "Traceparent")];
/// Those of what the rate limit has counted.
pub(super) const OF_THE_LIMIT: [(&str, &str); 2] =
    [("RateLimit", "RateLimit"), ("RateLimit-Policy", "RateLimitPolicy")];

/// Adds it.
pub(super) fn add(document: &mut OpenApi) {
    let mut components = document.components.take().unwrap_or_default();
    components.schemas.extend(schemas().map(|(name, schema)| (name.to_owned(), schema)));
    // Those that stand in parameters alone: utoipa looks for schemas in bodies and answers.
    components.schemas.extend([kind::<kinds::Cursor>(), kind::<kinds::Limit>(), kind::<kinds::NoRepair>()]);
    components.parameters.extend(everywhere().map(|(name, parameter)| (name.to_owned(), parameter.into())));
    components.headers.extend(headers().map(|(name, header)| (name.to_owned(), header.into())));
    for (path, item) in &mut document.paths.paths {
        for (is_post, operation) in operations(item) {
            Way::of(path, is_post, operation).describe(operation, &mut components);
        }
    }
    // Whatever it is about: the head was not read to its end. There is no envelope, and the connection is closed.
    let too_large = ResponseBuilder::new().description("the headers are over 32 KiB; the answer has no body");
    components.responses.insert(HEAD_TOO_LARGE.to_owned(), too_large.build().into());
    document.components = Some(components);
}

fn kind<T: ToSchema>() -> (String, RefOr<Schema>) {
    (T::name().into_owned(), T::schema())
}

/// The operations of an address; no route has another method.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (bool, &mut Operation)> {
    let (get, post, delete) = (item.get.as_mut(), item.post.as_mut(), item.delete.as_mut());
    [(false, get), (true, post), (false, delete)]
        .into_iter()
        .filter_map(|(is_post, operation)| operation.map(|operation| (is_post, operation)))
}

/// What a request passes on its way to an operation.
struct Way {
    /// It is one of the API: it knows its caller, and asks the store.
    api: bool,
    /// Who calls is an operator.
    operator: bool,
    /// It is done once under an idempotency key.
    once: bool,
    has_body: bool,
    /// Its JSON stands in the envelope.
    enveloped: bool,
}

impl Way {
    fn of(path: &str, is_post: bool, operation: &Operation) -> Way {
        let api = path.starts_with("/api/");
        // Who names another scheme is no user.
        let signed_in = operation.security.is_none();
        Way {
            api,
            operator: path.starts_with("/api/v1/ops/"),
            once: signed_in && is_post,
            has_body: operation.request_body.is_some(),
            enveloped: path != DOCUMENT,
        }
    }

    fn describe(&self, operation: &mut Operation, components: &mut Components) {
        let parameters = operation.parameters.get_or_insert_default();
        if self.once && !parameters.iter().any(is_key) {
            parameters.push(idempotency_key(Required::False).into());
        }
        parameters.extend(
            everywhere().map(|(name, _)| RefOr::Ref(Ref::new(format!("#/components/parameters/{name}")))),
        );
        let mut refused: BTreeMap<StatusCode, Vec<Refused>> = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for (status, said) in std::mem::take(&mut operation.responses.responses) {
            let (Ok(code), RefOr::T(mut said)) = (status.parse::<StatusCode>(), said) else { continue };
            if code.is_success() {
                self.succeed(&mut said);
                operation.responses.responses.insert(status, said.into());
            } else {
                let one = Refused::by_the_route(code, of_status(code), &said.description);
                refused.entry(code).or_default().push(one);
                shown.extend(data_of(&said).map(|data| (code, data)));
            }
        }
        for one in self.refusals() {
            refused.entry(one.status).or_default().push(one);
        }
        for (status, refused) in refused {
            let response = response(&refused, shown.remove(&status), components);
            operation.responses.responses.insert(status.as_str().to_owned(), response);
        }
        let too_large = Ref::new(format!("#/components/responses/{HEAD_TOO_LARGE}"));
        operation.responses.responses.insert("431".to_owned(), RefOr::Ref(too_large));
        operation.request_body.iter_mut().for_each(never_null);
    }

    /// The answer of a route, in its envelope.
    fn succeed(&self, said: &mut Response) {
        if let (true, Some(data)) = (self.enveloped, data_of(said)) {
            said.content.insert(JSON.to_owned(), Content::new(Some(envelope(&[Code::Done], data))).into());
        }
        let limited: &[_] = if self.api { &OF_THE_LIMIT } else { &[] };
        let replayed: &[_] = if self.once { &[("Idempotent-Replayed", "Replayed")] } else { &[] };
        for (name, component) in OF_EVERY_ANSWER.iter().chain(limited).chain(replayed) {
            said.headers.insert((*name).to_owned(), of_components(component));
        }
    }

    /// How the layers refuse.
    fn refusals(&self) -> Vec<Refused> {
        let mut refusals = Vec::new();
        let mut add = |status, code, what: &str| refusals.push(Refused::by_a_layer(status, code, what));
        add(
            StatusCode::GATEWAY_TIMEOUT,
            Code::OutcomeUnknown,
            "the time limit is over or the connection to the database was lost: the request may still complete; repeat it \
             with the same idempotency key",
        );
        add(StatusCode::INTERNAL_SERVER_ERROR, Code::Fault, "our fault; the trace id finds it");
        if !self.api {
            return refusals;
        }
        add(StatusCode::BAD_REQUEST, Code::Invalid, "the input is not valid; `data.errors` names each field");
        let unknown =
            "no token, or none that is valid; of the gateway: the signature is missing, wrong or too old";
        add(StatusCode::UNAUTHORIZED, Code::NotSignedIn, unknown);
        if self.operator {
            add(StatusCode::FORBIDDEN, Code::NotAllowed, "the caller is no operator");
        }
        if self.has_body {
            add(StatusCode::PAYLOAD_TOO_LARGE, Code::Invalid, "the body is over 64 KiB");
            let unfit = "the body is not said to be JSON, or is encoded";
            add(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::Invalid, unfit);
            let slow = "the body took too long to arrive; nothing was changed";
            add(StatusCode::REQUEST_TIMEOUT, Code::Invalid, slow);
        }
        if self.once {
            add(StatusCode::CONFLICT, Code::InProgress, "the same request is being processed");
            add(StatusCode::UNPROCESSABLE_ENTITY, Code::KeyTaken, "the key was used for another request");
        }
        add(
            StatusCode::TOO_MANY_REQUESTS,
            Code::TooOften,
            "too many requests; `Retry-After` says when to come again",
        );
        let away = "a dependency is unavailable, or too much is asked at a time; nothing was changed";
        add(StatusCode::SERVICE_UNAVAILABLE, Code::Away, away);
        refusals
    }
}

/// The code with which a route refuses.
fn of_status(status: StatusCode) -> Code {
    match status {
        StatusCode::FORBIDDEN => Code::NotAllowed,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::CONFLICT => Code::Conflict,
        StatusCode::SERVICE_UNAVAILABLE => Code::Away,
        _ => Code::Invalid,
    }
}

fn is_key(parameter: &RefOr<utoipa::openapi::path::Parameter>) -> bool {
    matches!(parameter, RefOr::T(given) if given.parameter_in == ParameterIn::Header && given.name == X_IDEMPOTENCY_KEY)
}

/// The schema of what an answer shows.
fn data_of(said: &Response) -> Option<RefOr<Schema>> {
    match said.content.get(JSON)? {
        RefOr::T(content) => content.schema.clone(),
        RefOr::Ref(_) => None,
    }
}

/// There may be no body, but null is none: where a body may be absent, utoipa writes both.
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
    let one_of =
        |name: &'static str| ObjectBuilder::new().schema_type(Type::String).enum_values(Some([name])).into();
    let text =
        |pattern: &'static str| ObjectBuilder::new().schema_type(Type::String).pattern(Some(pattern)).into();
    let challenge = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["Bearer", BAD_TOKEN_CHALLENGE]))
        .into();
    let limit = "What is left of the limit, as `RateLimit` of the IETF httpapi draft says it: `r` requests; in `t` seconds it is whole again, or lets in the next one";
    let policy = "The limit of this route: `q` requests at once, and as many in each `w` seconds";
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).into();
    [
        ("TraceId", of(Ref::from_schema_name(refused::TRACE_ID).into(), "The trace the request is in")),
        ("Replayed", of(one_of("true"), "The answer is that of an earlier request under the same key")),
        ("RetryAfter", of(seconds, "When to come again, in seconds")),
        (
            "Traceparent",
            of(
                text("^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"),
                "The same trace and this request's span (W3C Trace Context)",
            ),
        ),
        ("RateLimit", of(text("^\"[a-z]+\";r=[0-9]+;t=[0-9]+$"), limit)),
        ("RateLimitPolicy", of(text("^\"[a-z]+\";q=[0-9]+;w=[0-9]+$"), policy)),
        ("Authenticate", of(challenge, "How to sign in, and whether a token was refused (RFC 6750)")),
    ]
}
