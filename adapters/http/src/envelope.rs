//! Response envelope: `{"code","message","data","traceId"}`.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};

use crate::language::Language;
use crate::messages::Text;

/// The result codes, for success and for each kind of error.
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

    /// The code of a response with this status, if nothing more specific is known.
    pub(crate) fn of_status(status: StatusCode) -> Code {
        match status {
            StatusCode::UNAUTHORIZED => Code::NotAuthenticated,
            StatusCode::FORBIDDEN => Code::NotAllowed,
            StatusCode::NOT_FOUND => Code::NotFound,
            StatusCode::CONFLICT => Code::Conflict,
            StatusCode::TOO_MANY_REQUESTS => Code::RateLimited,
            StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
            other if other.is_client_error() => Code::Invalid,
            _ => Code::Internal,
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

    pub(crate) fn write(&self, trace_id: &str, language: Language) -> String {
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
