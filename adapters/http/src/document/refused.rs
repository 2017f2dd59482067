//! The envelope of answers, and the answers that refuse.

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

use super::layers::{OF_EVERY_ANSWER, OF_THE_LIMIT};
use crate::envelope::Code;
use crate::messages::{self, Text};

/// The schema of the trace id.
pub(super) const TRACE_ID: &str = "TraceId";
/// The schema of what is wrong with which field.
const FIELD_ERRORS: &str = "FieldErrors";

/// One way in which an operation refuses.
#[derive(Clone)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) code: Code,
    pub(super) what: String,
    /// It is the same whatever the operation.
    pub(super) by_a_layer: bool,
}

impl Refused {
    /// As a route says it.
    pub(super) fn by_the_route(status: StatusCode, code: Code, what: &str) -> Refused {
        Refused { status, code, what: what.to_owned(), by_a_layer: false }
    }

    /// Whatever the operation.
    pub(super) fn by_a_layer(status: StatusCode, code: Code, what: &str) -> Refused {
        Refused { by_a_layer: true, ..Refused::by_the_route(status, code, what) }
    }

    /// Its name among the components: the code, and the status if that is not the code's own.
    fn name(&self) -> String {
        let code = self.code.as_str();
        if self.code.status() == self.status {
            code.to_owned()
        } else {
            format!("{code}_{}", self.status.as_str())
        }
    }

    /// The name of its schema, which is among the components from now on.
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

    /// What the message is like.
    fn message(&self) -> Text {
        match self.code {
            Code::Done => messages::DONE,
            Code::Invalid => match self.status {
                StatusCode::REQUEST_TIMEOUT => messages::TOO_SLOW,
                StatusCode::PAYLOAD_TOO_LARGE => messages::TOO_LARGE,
                StatusCode::UNSUPPORTED_MEDIA_TYPE => messages::NOT_JSON_TYPE,
                _ => messages::INVALID,
            },
            Code::NotSignedIn => messages::NOT_SIGNED_IN,
            Code::NotAllowed => messages::NOT_ALLOWED,
            Code::NotFound => messages::not_found("order"),
            Code::Conflict => messages::CONFLICT,
            Code::InProgress => messages::IN_PROGRESS,
            Code::KeyTaken => messages::KEY_TAKEN,
            Code::TooOften => messages::TOO_OFTEN,
            Code::Fault => messages::FAULT,
            Code::Away => messages::AWAY,
            Code::OutcomeUnknown => messages::OUTCOME_UNKNOWN,
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

    /// Whether the client is told when to come again.
    fn says_when(&self) -> bool {
        matches!(self.code, Code::Away | Code::InProgress | Code::TooOften)
    }
}

/// The answer with one status, whichever of its codes it has. `data` is what it shows, where that is not of the code.
/// One that is the same for every operation stands among the components, once.
pub(super) fn response(
    refused: &[Refused],
    data: Option<RefOr<Schema>>,
    components: &mut Components,
) -> RefOr<Response> {
    let (one, data) = match (refused, data) {
        ([one], None) if one.by_a_layer => (one, None),
        (_, data) => return written(refused, data, components).into(),
    };
    let name = one.name();
    if !components.responses.contains_key(&name) {
        let response = written(refused, data, components);
        components.responses.insert(name.clone(), response.into());
    }
    RefOr::Ref(Ref::new(format!("#/components/responses/{name}")))
}

fn written(refused: &[Refused], data: Option<RefOr<Schema>>, components: &mut Components) -> Response {
    let what: Vec<String> =
        refused.iter().map(|one| format!("`{}`: {}", one.code.as_str(), one.what)).collect();
    let mut response = ResponseBuilder::new()
        .description(what.join("; "))
        .content("application/json", content(refused, data, components));
    for (name, component) in OF_EVERY_ANSWER.into_iter().chain(OF_THE_LIMIT) {
        response = response.header_ref(name, Ref::new(format!("#/components/headers/{component}")));
    }
    if refused.iter().any(Refused::says_when) {
        response = response.header_ref("Retry-After", Ref::new("#/components/headers/RetryAfter"));
    }
    if refused.iter().any(|one| one.code == Code::NotSignedIn) {
        response = response.header_ref("WWW-Authenticate", Ref::new("#/components/headers/Authenticate"));
    }
    response.build()
}

fn content(refused: &[Refused], data: Option<RefOr<Schema>>, components: &mut Components) -> Content {
    if let Some(data) = data {
        let codes: Vec<Code> = refused.iter().map(|one| one.code).collect();
        return Content::new(Some(envelope(&codes, data)));
    }
    let names: BTreeMap<&str, String> =
        refused.iter().map(|one| (one.code.as_str(), one.schema(components))).collect();
    let examples: BTreeMap<_, _> = refused
        .iter()
        .map(|one| (one.code.as_str(), ExampleBuilder::new().value(Some(one.example())).build()))
        .collect();
    ContentBuilder::new().schema(Some(one_of(names))).examples_from_iter(examples).build()
}

/// One of these envelopes, by its code: a generated client knows all of an answer once it has compared that.
fn one_of(names: BTreeMap<&str, String>) -> RefOr<Schema> {
    let mut names: Vec<(&str, String)> = names.into_iter().collect();
    if names.len() == 1
        && let Some((_, only)) = names.pop()
    {
        return Ref::from_schema_name(only).into();
    }
    let place = |name: &str| format!("#/components/schemas/{name}");
    let mapping = names.iter().map(|(code, name)| (*code, place(name)));
    let discriminator = Discriminator::with_mapping("code", mapping.collect::<Vec<_>>());
    let either =
        names.iter().fold(OneOfBuilder::new(), |either, (_, name)| either.item(Ref::new(place(name))));
    either.discriminator(Some(discriminator)).into()
}

/// The envelope (spec §4) with one of these codes around this data.
pub(super) fn envelope(codes: &[Code], data: RefOr<Schema>) -> RefOr<Schema> {
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

/// The schemas that answers share.
pub(super) fn schemas() -> [(&'static str, RefOr<Schema>); 2] {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let error = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("field", text().description(Some("Its path, such as `filter.status`")))
        .property("message", text())
        .required("field")
        .required("message");
    let errors = ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some("What is wrong with which field, all at once"))
        .property("errors", ArrayBuilder::new().items(error).min_items(Some(1)))
        .required("errors");
    let trace_id =
        text().pattern(Some("^[A-Za-z0-9_-]{1,64}$")).description(Some("The trace the request is in"));
    [(FIELD_ERRORS, errors.into()), (TRACE_ID, trace_id.into())]
}
