//! Response envelope: `{"code","message","data","traceId"}`.

use std::fmt;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::language::Language;
use crate::messages::Text;

/// A result code: for success, or for one kind of error. The constants are the codes of this crate; an application
/// registers its own codes as further constants with [`Code::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    code: &'static str,
    name: &'static str,
    status: StatusCode,
    /// The default message, in English and Chinese.
    message: [&'static str; 2],
    retry_after_s: Option<u32>,
}

impl Code {
    /// Success.
    pub const DONE: Code = Code::new("00000", "SUCCESS", StatusCode::OK, ["done", "成功"]);
    /// Malformed or invalid input.
    pub const INVALID: Code = Code::new(
        "A0400",
        "INVALID_INPUT",
        StatusCode::BAD_REQUEST,
        ["the input is not valid", "请求参数不正确"],
    );
    /// Token or signature missing or invalid.
    pub const NOT_AUTHENTICATED: Code = Code::new(
        "A0301",
        "NOT_AUTHENTICATED",
        StatusCode::UNAUTHORIZED,
        ["authentication required: send a bearer token", "请先登录"],
    );
    /// Authenticated, but not permitted.
    pub const NOT_ALLOWED: Code =
        Code::new("A0303", "NOT_PERMITTED", StatusCode::FORBIDDEN, ["permission denied", "没有权限"]);
    /// Not found, or not visible to the caller.
    pub const NOT_FOUND: Code =
        Code::new("A0404", "NOT_FOUND", StatusCode::NOT_FOUND, ["no such route", "请求的地址不存在"]);
    /// The current state does not allow the action.
    pub const CONFLICT: Code = Code::new(
        "A0409",
        "STATE_CONFLICT",
        StatusCode::CONFLICT,
        ["the data was changed by a concurrent request; retry", "数据已被他人修改，请重试"],
    );
    /// The tenant has the maximum number of resources of a kind.
    pub const QUOTA_EXCEEDED: Code = Code::new(
        "A0605",
        "QUOTA_EXCEEDED",
        StatusCode::CONFLICT,
        ["the quota of the tenant is used up", "租户的配额已用尽"],
    );
    /// Too many requests of one caller.
    pub const RATE_LIMITED: Code = Code::new(
        "A0500",
        "RATE_LIMITED",
        StatusCode::TOO_MANY_REQUESTS,
        ["too many requests; retry after the time in Retry-After", "请求过于频繁..."],
    )
    .with_retry_after(RETRY_SOON_S);
    /// Internal error.
    pub const INTERNAL: Code = Code::new(
        "B0001",
        "INTERNAL_ERROR",
        StatusCode::INTERNAL_SERVER_ERROR,
        ["internal error; report it with its trace id", "系统内部错误，请提供 traceId"],
    );
    /// A dependency is unavailable, or the server is overloaded; nothing was changed.
    pub const UNAVAILABLE: Code = Code::new(
        "C0001",
        "DEPENDENCY_UNAVAILABLE",
        StatusCode::SERVICE_UNAVAILABLE,
        [
            "a required service is unavailable; nothing was changed; retry later",
            "依赖的服务暂不可用，数据未变更，请稍后重试",
        ],
    )
    .with_retry_after(RETRY_AFTER_S);
    /// The request timed out, and its transaction may still commit.
    pub const OUTCOME_UNKNOWN: Code = Code::new(
        "C0002",
        "OUTCOME_UNKNOWN",
        StatusCode::GATEWAY_TIMEOUT,
        [
            "the outcome is unknown: the request may still complete; repeat it with the same idempotency key",
            "结果未知，请求可能仍会完成：请使用相同的幂等键重试",
        ],
    );

    /// Registers a code: its text in the envelope, its name in generated clients (`x-enum-varnames`), its status, and its
    /// default message in English and Chinese. The text MUST differ from that of every other code of the application.
    pub const fn new(
        code: &'static str,
        name: &'static str,
        status: StatusCode,
        message: [&'static str; 2],
    ) -> Code {
        Code { code, name, status, message, retry_after_s: None }
    }

    /// Adds `Retry-After` to every response with this code; a response may have another time.
    #[must_use]
    pub const fn with_retry_after(self, seconds: u32) -> Code {
        Code { retry_after_s: Some(seconds), ..self }
    }

    /// The text in the envelope.
    pub const fn as_str(self) -> &'static str {
        self.code
    }

    pub(crate) const fn name(self) -> &'static str {
        self.name
    }

    /// The status of a response with this code, unless the response has a more specific one.
    pub const fn status(self) -> StatusCode {
        self.status
    }

    /// The message, unless a route has a more specific one.
    pub const fn message(self) -> Text {
        let [en, zh] = self.message;
        Text::fixed(en, zh)
    }

    pub(crate) const fn retry_after_s(self) -> Option<u32> {
        self.retry_after_s
    }

    /// The code of a response with this status, if nothing more specific is known.
    pub(crate) fn of_status(status: StatusCode) -> Code {
        match status {
            StatusCode::UNAUTHORIZED => Code::NOT_AUTHENTICATED,
            StatusCode::FORBIDDEN => Code::NOT_ALLOWED,
            StatusCode::NOT_FOUND => Code::NOT_FOUND,
            StatusCode::CONFLICT => Code::CONFLICT,
            StatusCode::TOO_MANY_REQUESTS => Code::RATE_LIMITED,
            StatusCode::SERVICE_UNAVAILABLE => Code::UNAVAILABLE,
            other if other.is_client_error() => Code::INVALID,
            _ => Code::INTERNAL,
        }
    }
}

/// `Retry-After` when a dependency is unavailable, in seconds.
const RETRY_AFTER_S: u32 = 5;
/// `Retry-After` when the condition ends soon, in seconds: the same request in progress, overload.
pub const RETRY_SOON_S: u32 = 1;

/// A response that is not serialized yet.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Result code.
    pub code: Code,
    /// Message for the client.
    pub message: Text,
    /// `data` of the envelope.
    pub data: ReplyData,
}

/// `data` of the envelope.
#[derive(Debug, Clone)]
pub enum ReplyData {
    /// The result of the route, as text: numbers and the sequence of fields stay as the route wrote them.
    Json(Box<RawValue>),
    /// A result with a secret.
    WithSecret(SecretData),
    /// Validation errors: field and message.
    Errors(Vec<(String, Text)>),
}

impl ReplyData {
    /// The data that may be stored; a repeated request gets it. `None` for errors.
    pub fn storable(&self) -> Option<&RawValue> {
        match self {
            ReplyData::Json(data) => Some(data),
            ReplyData::WithSecret(data) => Some(&data.without_secret),
            ReplyData::Errors(_) => None,
        }
    }
}

/// Data with a secret, which only the first response shows.
#[derive(Clone)]
pub struct SecretData {
    pub(crate) shown: Box<RawValue>,
    pub(crate) without_secret: Box<RawValue>,
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretData").field("without_secret", &self.without_secret).finish_non_exhaustive()
    }
}

impl Reply {
    pub(crate) fn into_response(self, status: StatusCode) -> Response {
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }

    /// Serializes the envelope.
    pub(crate) fn write(&self, trace_id: &str, language: Language) -> String {
        let data = match &self.data {
            ReplyData::Json(data) => data.clone(),
            ReplyData::WithSecret(data) => data.shown.clone(),
            ReplyData::Errors(errors) => {
                let error = |(field, text): &(String, Text)| FieldError {
                    field: field.clone(),
                    message: text.in_language(language).to_owned(),
                };
                to_json(&FieldErrors { errors: errors.iter().map(error).collect() })
            }
        };
        let envelope = Envelope {
            code: self.code.as_str(),
            message: self.message.in_language(language),
            data: &data,
            trace_id,
        };
        to_json(&envelope).get().to_owned()
    }
}

/// The body of every response.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    code: &'a str,
    message: &'a str,
    data: &'a RawValue,
    trace_id: &'a str,
}

#[derive(Serialize)]
struct FieldErrors {
    errors: Vec<FieldError>,
}

#[derive(Serialize)]
struct FieldError {
    field: String,
    message: String,
}

/// Texts and lists of texts always serialize.
fn to_json(data: &impl Serialize) -> Box<RawValue> {
    to_raw_value(data).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
