//! Error responses, and their mapping from errors of the outbox.
//!
//! **Invariant:** error details of the store and the broker are logged once and never sent to the client.

use std::fmt::Display;

use axum::http::header::{ACCEPT_ENCODING, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use handover_outbox::archive::ArchiveStorageError;
use handover_outbox::operations::OperationError;
use handover_outbox::ports::{BrokerError, StoreError};
use handover_outbox::webhooks::{InvalidEndpoint, MAX_ENDPOINTS, WebhookError};
use serde_json::value::RawValue;

use crate::envelope::{Code, RETRY_SOON_S, Reply, ReplyData};
use crate::language::Language;
use crate::messages::{self, Text};

/// An error response.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    reply: Box<Reply>,
    /// `Retry-After`, in seconds, if a retry can succeed.
    retry_after_s: Option<u32>,
    /// An additional header.
    header: Option<(HeaderName, &'static str)>,
}

/// Maximum number of fields in an error response: its size must not depend on the request.
const MAX_ERRORS: usize = 100;

/// Challenge for a request without a token; it carries no error code (RFC 6750 §3.1).
const CHALLENGE: &str = "Bearer";
/// Challenge for a request with an invalid token; the same for every reason.
pub(crate) const BAD_TOKEN_CHALLENGE: &str =
    "Bearer error=\"invalid_token\", error_description=\"the token is not valid or has expired\"";

impl Refusal {
    /// An error with the code's status and `Retry-After`, and a more specific message.
    pub fn new(code: Code, message: Text) -> Refusal {
        let reply = Reply { code, message, data: ReplyData::Json(RawValue::NULL.to_owned()) };
        let header = (code == Code::NOT_AUTHENTICATED).then_some((WWW_AUTHENTICATE, CHALLENGE));
        Refusal { status: code.status(), reply: Box::new(reply), retry_after_s: code.retry_after_s(), header }
    }

    /// An error with the code's message.
    pub fn of(code: Code) -> Refusal {
        Refusal::new(code, code.message())
    }

    /// The token is not valid.
    pub fn bad_token() -> Refusal {
        let header = Some((WWW_AUTHENTICATE, BAD_TOKEN_CHALLENGE));
        Refusal { header, ..Refusal::new(Code::NOT_AUTHENTICATED, messages::BAD_TOKEN) }
    }

    /// The body has a content coding, which is not supported (RFC 9110 §15.5.16).
    pub fn encoded_body() -> Refusal {
        let header = Some((ACCEPT_ENCODING, "identity"));
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Refusal { status, header, ..Refusal::new(Code::INVALID, messages::ENCODED_BODY) }
    }

    /// Several `Content-Type` headers: the type of the body is not known.
    pub fn repeated_content_type() -> Refusal {
        let message = messages::repeated_header("Content-Type");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Refusal { status, ..Refusal::new(Code::INVALID, message) }
    }

    /// The request timed out or its commit was interrupted; its transaction may still commit. Logs the error.
    pub fn outcome_unknown(error: &dyn Display) -> Refusal {
        tracing::warn!(code = "request.outcome-unknown", %error, responseCode = Code::OUTCOME_UNKNOWN.as_str(), "request: outcome unknown");
        Refusal::of(Code::OUTCOME_UNKNOWN)
    }

    /// Invalid input, with one message per field, for at most 100 fields.
    pub fn invalid(mut errors: Vec<(String, Text)>) -> Refusal {
        errors.truncate(MAX_ERRORS);
        let mut refusal = Refusal::of(Code::INVALID);
        refusal.reply.data = ReplyData::Errors(errors);
        refusal
    }

    /// Invalid input in one field.
    pub fn field(name: &str, message: Text) -> Refusal {
        Refusal::invalid(vec![(name.to_owned(), message)])
    }

    /// The reason in English, for a record.
    pub fn reason(&self) -> String {
        let english = |text: &Text| text.in_language(Language::English).to_owned();
        match &self.reply.data {
            ReplyData::Errors(errors) => {
                let reasons = errors.iter().map(|(field, text)| format!("{field} {}", english(text)));
                reasons.collect::<Vec<_>>().join("; ")
            }
            ReplyData::Json(_) | ReplyData::WithSecret(_) => english(&self.reply.message),
        }
    }

    /// Sets `data` of the envelope.
    pub fn with_data(mut self, data: Box<RawValue>) -> Refusal {
        self.reply.data = ReplyData::Json(data);
        self
    }

    /// Sets `Retry-After` to [`RETRY_SOON_S`].
    pub fn retry_soon(self) -> Refusal {
        Refusal { retry_after_s: Some(RETRY_SOON_S), ..self }
    }

    /// The resource does not exist, or is not visible to the caller.
    pub fn not_found(what: &'static str) -> Refusal {
        Refusal::new(Code::NOT_FOUND, messages::not_found(what))
    }

    /// Too many requests of one caller.
    pub fn rate_limited(retry_after_s: u32) -> Refusal {
        Refusal { retry_after_s: Some(retry_after_s), ..Refusal::of(Code::RATE_LIMITED) }
    }

    /// Internal error. Logs the error in the span of the request.
    pub fn internal(error: &dyn Display) -> Refusal {
        tracing::error!(code = "request.internal-error", %error, "request: internal error");
        Refusal::of(Code::INTERNAL)
    }

    /// A dependency is unavailable. Logs the error in the span of the request.
    pub fn unavailable(error: &dyn Display, message: Text) -> Refusal {
        tracing::warn!(code = "request.dependency-unavailable", %error, "request: dependency unavailable; responding with 503");
        Refusal::new(Code::UNAVAILABLE, message)
    }

    /// The reply to a request whose head is malformed or too large.
    pub(crate) fn before_routing(status: StatusCode) -> Reply {
        let mut refusal = Refusal::from_status(status);
        if status == StatusCode::BAD_REQUEST {
            refusal.reply.message = messages::MALFORMED_REQUEST;
        }
        *refusal.reply
    }

    /// The error response for a status without an envelope.
    pub fn from_status(status: StatusCode) -> Refusal {
        let code = Code::of_status(status);
        Refusal { status, ..Refusal::new(code, default_message(code, status)) }
    }
}

/// The message of a response without a more specific one.
pub(crate) fn default_message(code: Code, status: StatusCode) -> Text {
    match status {
        StatusCode::METHOD_NOT_ALLOWED => messages::WRONG_METHOD,
        StatusCode::REQUEST_TIMEOUT => messages::BODY_TIMEOUT,
        StatusCode::PAYLOAD_TOO_LARGE => messages::BODY_TOO_LARGE,
        StatusCode::URI_TOO_LONG => messages::URL_TOO_LONG,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => messages::NOT_JSON_TYPE,
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => messages::HEAD_TOO_LARGE,
        _ => code.message(),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.reply.into_response(self.status);
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl From<OperationError> for Refusal {
    fn from(error: OperationError) -> Refusal {
        match error {
            OperationError::NotFound { what } => Refusal::not_found(what),
            OperationError::NothingBlocked => Refusal::new(Code::CONFLICT, messages::NOTHING_BLOCKED),
            OperationError::ForAllTenants => Refusal::new(Code::NOT_ALLOWED, messages::FOR_ALL_TENANTS),
            OperationError::Archived { event } => {
                Refusal::new(Code::CONFLICT, messages::archived(event.as_str()))
            }
            OperationError::ArchivedAggregate { aggregate } => {
                Refusal::new(Code::CONFLICT, messages::archived_aggregate(&aggregate))
            }
            OperationError::OldestPublished => Refusal::field("oldest", messages::OLDEST_PUBLISHED),
            OperationError::UnknownName { field, nearest, .. } => {
                Refusal::field(field, messages::unknown_name(&nearest))
            }
            OperationError::Store(error) => error.into(),
            OperationError::Broker(error) => error.into(),
            OperationError::Archive(error @ ArchiveStorageError::Unavailable { .. }) => {
                Refusal::unavailable(&error, messages::ARCHIVE_UNAVAILABLE)
            }
            OperationError::Archive(
                error @ (ArchiveStorageError::Missing { .. } | ArchiveStorageError::Damaged { .. }),
            ) => Refusal::internal(&error),
        }
    }
}

impl From<InvalidEndpoint> for Refusal {
    fn from(error: InvalidEndpoint) -> Refusal {
        Refusal::field(error.field, messages::invalid(&error.why))
    }
}

impl From<WebhookError> for Refusal {
    fn from(error: WebhookError) -> Refusal {
        match error {
            WebhookError::Operation(error) => error.into(),
            WebhookError::Invalid(error) => error.into(),
            WebhookError::TooManyEndpoints => {
                Refusal::new(Code::QUOTA_EXCEEDED, messages::too_many_endpoints(MAX_ENDPOINTS))
            }
            WebhookError::Secret(error) => Refusal::internal(&error),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match &error {
            StoreError::Conflict { .. } => Refusal::of(Code::CONFLICT),
            StoreError::Transient(_) | StoreError::Unavailable(_) => {
                Refusal::unavailable(&error, Code::UNAVAILABLE.message())
            }
            StoreError::CommitUnknown(_) => Refusal::outcome_unknown(&error),
            StoreError::Corrupt { .. } | StoreError::IdInUse { .. } | StoreError::Backend(_) => {
                Refusal::internal(&error)
            }
        }
    }
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Refusal {
        match &error {
            BrokerError::Unreachable(_) | BrokerError::Closed { .. } => {
                Refusal::unavailable(&error, Code::UNAVAILABLE.message())
            }
            BrokerError::Refused { .. } => Refusal::internal(&error),
        }
    }
}
