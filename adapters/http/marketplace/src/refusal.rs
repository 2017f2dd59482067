//! Error responses, and their mapping from errors of the application and the domain.
//!
//! **Invariant:** error details of the store and the broker are logged once and never sent to the client.

use std::convert::Infallible;
use std::fmt::Display;

use axum::http::header::{ACCEPT_ENCODING, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use handover_outbox::operations::OperationError;
use handover_outbox::ports::{BrokerError, StoreError};
use marketplace::ports::IdempotencyError;
use marketplace::use_cases::{NotAllowed, PaymentCommandRefusal, RefundCommandRefusal, UseCaseError};
use marketplace_domain::{Asset, AssetRefusal, OrderRefusal, ProductRefusal, RefundRefusal};
use serde_json::Value;

use crate::envelope::{Code, Reply, ReplyData};
use crate::language::Language;
use crate::messages::{self, Text};

/// `Retry-After` when a dependency is unavailable, in seconds.
const RETRY_AFTER_S: u32 = 5;
/// `Retry-After` when the condition ends soon, in seconds: asset locks in progress, the same request in progress, overload.
const RETRY_SOON_S: u32 = 1;

/// An error response.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    reply: Box<Reply>,
    /// `Retry-After`, in seconds, if a retry can succeed.
    retry_after_s: Option<u32>,
    /// An additional header.
    header: Option<(HeaderName, &'static str)>,
}

/// Challenge for a request without a token; it carries no error code (RFC 6750 §3.1).
const CHALLENGE: &str = "Bearer";
/// Challenge for a request with an invalid token; the same for every reason.
pub(crate) const BAD_TOKEN_CHALLENGE: &str =
    "Bearer error=\"invalid_token\", error_description=\"the token is not valid or has expired\"";

impl Refusal {
    pub(crate) fn new(code: Code, message: Text) -> Refusal {
        let reply = Reply { code, message, data: ReplyData::Value(Value::Null) };
        let retry_after_s = (code == Code::Unavailable).then_some(RETRY_AFTER_S);
        let header = (code == Code::NotAuthenticated).then_some((WWW_AUTHENTICATE, CHALLENGE));
        Refusal { status: code.status(), reply: Box::new(reply), retry_after_s, header }
    }

    pub(crate) fn bad_token() -> Refusal {
        let header = Some((WWW_AUTHENTICATE, BAD_TOKEN_CHALLENGE));
        Refusal { header, ..Refusal::new(Code::NotAuthenticated, messages::BAD_TOKEN) }
    }

    /// The body has a content coding, which is not supported (RFC 9110 §15.5.16).
    pub(crate) fn encoded_body() -> Refusal {
        let header = Some((ACCEPT_ENCODING, "identity"));
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Refusal { status, header, ..Refusal::new(Code::Invalid, messages::ENCODED_BODY) }
    }

    /// Several `Content-Type` headers: the type of the body is not known.
    pub(crate) fn repeated_content_type() -> Refusal {
        let message = messages::repeated_header("Content-Type");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Refusal { status, ..Refusal::new(Code::Invalid, message) }
    }

    /// The request timed out or its commit was interrupted; its transaction may still commit. Logs the error.
    pub(crate) fn outcome_unknown(error: &dyn Display) -> Refusal {
        tracing::warn!(%error, code = Code::OutcomeUnknown.as_str(), "request: outcome unknown");
        Refusal::new(Code::OutcomeUnknown, messages::OUTCOME_UNKNOWN)
    }

    /// Invalid input, with one message per field.
    pub(crate) fn invalid(errors: Vec<(String, Text)>) -> Refusal {
        let mut refusal = Refusal::new(Code::Invalid, messages::INVALID);
        refusal.reply.data = ReplyData::Errors(errors);
        refusal
    }

    /// Invalid input in one field.
    pub(crate) fn field(name: &str, message: Text) -> Refusal {
        Refusal::invalid(vec![(name.to_owned(), message)])
    }

    /// The reason in English, for a record.
    pub(crate) fn reason(&self) -> String {
        let english = |text: &Text| text.in_language(Language::English).to_owned();
        match &self.reply.data {
            ReplyData::Errors(errors) => {
                let reasons = errors.iter().map(|(field, text)| format!("{field} {}", english(text)));
                reasons.collect::<Vec<_>>().join("; ")
            }
            ReplyData::Value(_) => english(&self.reply.message),
        }
    }

    /// Sets `data` of the envelope.
    pub(crate) fn with_data(mut self, data: Value) -> Refusal {
        self.reply.data = ReplyData::Value(data);
        self
    }

    /// Sets `Retry-After` to [`RETRY_SOON_S`].
    pub(crate) fn retry_soon(self) -> Refusal {
        Refusal { retry_after_s: Some(RETRY_SOON_S), ..self }
    }

    /// The resource does not exist, or is not visible to the caller.
    pub(crate) fn not_found(what: &'static str) -> Refusal {
        Refusal::new(Code::NotFound, messages::not_found(what))
    }

    pub(crate) fn rate_limited(retry_after_s: u32) -> Refusal {
        Refusal {
            retry_after_s: Some(retry_after_s),
            ..Refusal::new(Code::RateLimited, messages::RATE_LIMITED)
        }
    }

    fn key_reused() -> Refusal {
        Refusal::new(Code::KeyReused, messages::KEY_REUSED)
    }

    fn in_progress() -> Refusal {
        Refusal::new(Code::InProgress, messages::IN_PROGRESS).retry_soon()
    }

    /// Internal error. Logs the error in the span of the request.
    pub(crate) fn internal(error: &dyn Display) -> Refusal {
        tracing::error!(%error, "request: internal error");
        Refusal::new(Code::Internal, messages::INTERNAL_ERROR)
    }

    /// A dependency is unavailable. Logs the error in the span of the request.
    fn unavailable(error: &dyn Display, message: Text) -> Refusal {
        tracing::warn!(%error, "request: dependency unavailable; responding with 503");
        Refusal::new(Code::Unavailable, message)
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
    pub(crate) fn from_status(status: StatusCode) -> Refusal {
        let code = Code::of_status(status);
        Refusal { status, ..Refusal::new(code, default_message(code, status)) }
    }
}

/// The message of a code, unless a route has a more specific one.
pub(crate) fn default_message(code: Code, status: StatusCode) -> Text {
    match code {
        Code::Done => messages::DONE,
        Code::Invalid => match status {
            StatusCode::METHOD_NOT_ALLOWED => messages::WRONG_METHOD,
            StatusCode::REQUEST_TIMEOUT => messages::BODY_TIMEOUT,
            StatusCode::PAYLOAD_TOO_LARGE => messages::BODY_TOO_LARGE,
            StatusCode::URI_TOO_LONG => messages::URL_TOO_LONG,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => messages::NOT_JSON_TYPE,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => messages::HEAD_TOO_LARGE,
            _ => messages::INVALID,
        },
        Code::NotAuthenticated => messages::NOT_AUTHENTICATED,
        Code::NotAllowed => messages::NOT_ALLOWED,
        Code::NotFound => messages::NO_ROUTE,
        Code::Conflict => messages::CONFLICT,
        Code::InProgress => messages::IN_PROGRESS,
        Code::KeyReused => messages::KEY_REUSED,
        Code::RateLimited => messages::RATE_LIMITED,
        Code::Internal => messages::INTERNAL_ERROR,
        Code::Unavailable => messages::UNAVAILABLE,
        Code::OutcomeUnknown => messages::OUTCOME_UNKNOWN,
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
            OperationError::NothingBlocked => Refusal::new(Code::Conflict, messages::NOTHING_BLOCKED),
            OperationError::Store(error) => error.into(),
            OperationError::Broker(error) => error.into(),
        }
    }
}

impl<R: Into<Refusal>> From<UseCaseError<R>> for Refusal {
    fn from(error: UseCaseError<R>) -> Refusal {
        match error {
            UseCaseError::NotFound { what } => Refusal::not_found(what),
            UseCaseError::NotAllowed(missing) => missing.into(),
            UseCaseError::Refused(refusal) => refusal.into(),
            UseCaseError::KeyReused => Refusal::key_reused(),
            UseCaseError::InProgress => Refusal::in_progress(),
            UseCaseError::Store(error) => error.into(),
        }
    }
}

impl From<NotAllowed> for Refusal {
    fn from(_: NotAllowed) -> Refusal {
        Refusal::new(Code::NotAllowed, messages::NOT_ALLOWED)
    }
}

impl From<Infallible> for Refusal {
    fn from(never: Infallible) -> Refusal {
        match never {}
    }
}

impl From<PaymentCommandRefusal> for Refusal {
    fn from(refusal: PaymentCommandRefusal) -> Refusal {
        match refusal {
            PaymentCommandRefusal::Order(refusal) => refusal.into(),
            PaymentCommandRefusal::AssetsNotLocked => {
                Refusal::unavailable(&refusal, messages::NOT_LOCKED_YET).retry_soon()
            }
        }
    }
}

impl From<RefundCommandRefusal> for Refusal {
    fn from(refusal: RefundCommandRefusal) -> Refusal {
        match refusal {
            RefundCommandRefusal::Order(refusal) => refusal.into(),
            RefundCommandRefusal::Refund(refusal) => refusal.into(),
        }
    }
}

/// Names the fields of an operator's grant. The asset refusal of an order is [`OrderRefusal::Assets`].
impl From<AssetRefusal> for Refusal {
    fn from(refusal: AssetRefusal) -> Refusal {
        asset_refusal(&refusal, GRANT_AMOUNT_FIELDS)
    }
}

impl From<OrderRefusal> for Refusal {
    fn from(refusal: OrderRefusal) -> Refusal {
        let code = match &refusal {
            OrderRefusal::NotAllowed { .. } => Code::NotAllowed,
            OrderRefusal::WrongStatus { .. } | OrderRefusal::NotOverdue | OrderRefusal::Refunding { .. } => {
                Code::Conflict
            }
            OrderRefusal::Assets(asset) => return asset_refusal(asset, ORDER_AMOUNT_FIELDS),
            OrderRefusal::Product(product) => product_code(product),
        };
        Refusal::new(code, Text::from(&refusal))
    }
}

impl From<ProductRefusal> for Refusal {
    fn from(refusal: ProductRefusal) -> Refusal {
        Refusal::new(product_code(&refusal), Text::from(&refusal))
    }
}

/// Products are visible to every user of their tenant, so a caller without permission gets 403 and not 404.
fn product_code(refusal: &ProductRefusal) -> Code {
    match refusal {
        ProductRefusal::WrongStatus { .. } => Code::Conflict,
        ProductRefusal::OwnProduct | ProductRefusal::NotTheSeller => Code::NotAllowed,
    }
}

impl From<RefundRefusal> for Refusal {
    fn from(refusal: RefundRefusal) -> Refusal {
        Refusal::new(Code::Conflict, Text::from(&refusal))
    }
}

/// Names of the request's amount fields.
#[derive(Clone, Copy)]
struct AmountFields {
    money: &'static str,
    points: &'static str,
}

const ORDER_AMOUNT_FIELDS: AmountFields = AmountFields { money: "walletAmount", points: "points" };
const GRANT_AMOUNT_FIELDS: AmountFields = AmountFields { money: "amount", points: "points" };

/// An amount that exceeds a limit or is not worth whole cents is invalid input (400); a refusal because of the state of
/// an asset, such as an insufficient balance, is a conflict (409).
fn asset_refusal(refusal: &AssetRefusal, fields: AmountFields) -> Refusal {
    let text = Text::from(refusal);
    let field_of = |asset: Asset| match asset {
        Asset::Points => fields.points,
        Asset::Coupon | Asset::Wallet | Asset::Cash => fields.money,
    };
    match refusal {
        AssetRefusal::MoreThanLeft { asset, .. } | AssetRefusal::TooMuch { asset } => {
            Refusal::field(field_of(*asset), text)
        }
        AssetRefusal::PointsNotWhole { .. } => Refusal::field(fields.points, text),
        AssetRefusal::Insufficient { .. }
        | AssetRefusal::BelowMinimumSpend { .. }
        | AssetRefusal::CouponNotAvailable { .. }
        | AssetRefusal::NotYourCoupon
        | AssetRefusal::NotLocked { .. }
        | AssetRefusal::HoldEnded { .. }
        | AssetRefusal::BeyondCommitted { .. } => Refusal::new(Code::Conflict, text),
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match &error {
            StoreError::Conflict { .. } => Refusal::new(Code::Conflict, messages::CONFLICT),
            StoreError::Transient(_) | StoreError::Unavailable(_) => {
                Refusal::unavailable(&error, messages::UNAVAILABLE)
            }
            StoreError::CommitUnknown(_) => Refusal::outcome_unknown(&error),
            StoreError::Corrupt { .. } | StoreError::Backend(_) => Refusal::internal(&error),
        }
    }
}

impl From<IdempotencyError> for Refusal {
    fn from(error: IdempotencyError) -> Refusal {
        match error {
            IdempotencyError::KeyReused => Refusal::key_reused(),
            IdempotencyError::InProgress => Refusal::in_progress(),
            IdempotencyError::Store(error) => error.into(),
            IdempotencyError::Unavailable(_) => Refusal::unavailable(&error, messages::KEY_STORE_UNAVAILABLE),
        }
    }
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Refusal {
        match &error {
            BrokerError::Unreachable(_) | BrokerError::Closed { .. } => {
                Refusal::unavailable(&error, messages::UNAVAILABLE)
            }
            BrokerError::Refused { .. } => Refusal::internal(&error),
        }
    }
}
