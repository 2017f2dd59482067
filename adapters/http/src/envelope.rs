//! Response envelope: `{"code","message","data","traceId"}` (spec §4).
//!
//! A route returns an empty response with a [`Reply`] as extension. [`write_envelope`] serializes it in the outermost layer,
//! which has the trace id and the language and also handles responses of layers without a `Reply`.

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::language::Language;
use crate::messages::{self, Text};
use crate::refusal::Refusal;
use crate::response_headers::add_security_headers;
use crate::trace::X_TRACE_ID;

/// The codes of spec §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Done,
    Invalid,
    NotAuthenticated,
    NotAllowed,
    NotFound,
    Conflict,
    InProgress,
    KeyReused,
    RateLimited,
    Internal,
    Unavailable,
    OutcomeUnknown,
}

impl Code {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Code::Done => "00000",
            Code::Invalid => "A0400",
            Code::NotAuthenticated => "A0301",
            Code::NotAllowed => "A0303",
            Code::NotFound => "A0404",
            Code::Conflict => "A0409",
            Code::InProgress => "A0401",
            Code::KeyReused => "A0422",
            Code::RateLimited => "A0500",
            Code::Internal => "B0001",
            Code::Unavailable => "C0001",
            Code::OutcomeUnknown => "C0002",
        }
    }

    /// Name of the code in generated clients (`x-enum-varnames`).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Code::Done => "SUCCESS",
            Code::Invalid => "INVALID_INPUT",
            Code::NotAuthenticated => "NOT_AUTHENTICATED",
            Code::NotAllowed => "NOT_PERMITTED",
            Code::NotFound => "NOT_FOUND",
            Code::Conflict => "STATE_CONFLICT",
            Code::InProgress => "REQUEST_IN_PROGRESS",
            Code::KeyReused => "IDEMPOTENCY_KEY_REUSED",
            Code::RateLimited => "RATE_LIMITED",
            Code::Internal => "INTERNAL_ERROR",
            Code::Unavailable => "DEPENDENCY_UNAVAILABLE",
            Code::OutcomeUnknown => "OUTCOME_UNKNOWN",
        }
    }

    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Code::Done => StatusCode::OK,
            Code::Invalid => StatusCode::BAD_REQUEST,
            Code::NotAuthenticated => StatusCode::UNAUTHORIZED,
            Code::NotAllowed => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::Conflict | Code::InProgress => StatusCode::CONFLICT,
            Code::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::OutcomeUnknown => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// A response that is not serialized yet.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) code: Code,
    pub(crate) message: Text,
    pub(crate) data: ReplyData,
}

/// `data` of the envelope.
#[derive(Debug, Clone)]
pub(crate) enum ReplyData {
    Value(Value),
    /// Validation errors: field and message.
    Errors(Vec<(String, Text)>),
}

impl Reply {
    pub(crate) fn into_response(self, status: StatusCode) -> Response {
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }

    fn write(&self, trace_id: &str, language: Language) -> String {
        let data = match &self.data {
            ReplyData::Value(value) => value.clone(),
            ReplyData::Errors(errors) => {
                let error = |(field, text): &(String, Text)| {
                    Value::Object(Map::from_iter([
                        ("field".to_owned(), field.as_str().into()),
                        ("message".to_owned(), text.in_language(language).into()),
                    ]))
                };
                Value::Object(Map::from_iter([("errors".to_owned(), errors.iter().map(error).collect())]))
            }
        };
        Value::Object(Map::from_iter([
            ("code".to_owned(), self.code.as_str().into()),
            ("message".to_owned(), self.message.in_language(language).into()),
            ("data".to_owned(), data),
            ("traceId".to_owned(), trace_id.into()),
        ]))
        .to_string()
    }
}

/// A successful response.
#[derive(Debug)]
pub(crate) struct Done {
    status: StatusCode,
    data: Value,
}

/// A page of a list, and the cursor of the next page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

/// Result of a route handler.
pub(crate) type RouteResult = Result<Done, Refusal>;

impl Done {
    pub(crate) fn ok(data: &impl Serialize) -> RouteResult {
        Done::with(StatusCode::OK, data)
    }

    pub(crate) fn created(data: &impl Serialize) -> RouteResult {
        Done::with(StatusCode::CREATED, data)
    }

    pub(crate) fn page<T: Serialize>(items: Vec<T>, next: Option<i64>) -> RouteResult {
        Done::ok(&Page { items, next_cursor: next.map(|id| id.to_string()) })
    }

    /// A stored response.
    pub(crate) fn stored(status: u16, data: Value) -> RouteResult {
        let status = StatusCode::from_u16(status).map_err(|error| Refusal::internal(&error))?;
        Ok(Done { status, data })
    }

    fn with(status: StatusCode, data: &impl Serialize) -> RouteResult {
        let data = serde_json::to_value(data).map_err(|error| Refusal::internal(&error))?;
        Ok(Done { status, data })
    }
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        let reply = Reply { code: Code::Done, message: messages::DONE, data: ReplyData::Value(self.data) };
        reply.into_response(self.status)
    }
}

/// Serializes the response and adds the security headers and the trace id. An error response without a [`Reply`] gets the
/// envelope of its status; a successful one, such as `/metrics`, is unchanged.
pub(crate) fn write_envelope(response: Response, trace_id: &str, language: Language) -> Response {
    let response = match (response.extensions().get::<Reply>(), response.status()) {
        (None, status) if status.is_client_error() || status.is_server_error() => {
            let (parts, _) = response.into_parts();
            let mut enveloped = Refusal::from_status(status).into_response();
            for (name, value) in &parts.headers {
                enveloped.headers_mut().entry(name).or_insert_with(|| value.clone());
            }
            enveloped
        }
        (Some(_), _) | (None, _) => response,
    };
    let (mut parts, body) = response.into_parts();
    let body = match parts.extensions.remove::<Reply>() {
        Some(reply) => {
            parts.headers.remove(CONTENT_LENGTH);
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Body::from(reply.write(trace_id, language))
        }
        None => body,
    };
    add_security_headers(&mut parts.headers);
    if let Ok(value) = HeaderValue::from_str(trace_id) {
        parts.headers.insert(X_TRACE_ID, value);
    }
    Response::from_parts(parts, body)
}
