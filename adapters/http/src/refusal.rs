//! Why a request is not done, and what its sender is told.
//!
//! **Invariant:** what a store or a broker says goes to the log, once, and never to the client.

use std::fmt::Display;

use axum::http::header::{ACCEPT_ENCODING, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use handover_outbox::operations::OperationError;
use handover_outbox::ports::{BrokerError, StoreError};
use marketplace::ports::IdempotencyError;
use marketplace::use_cases::UseCaseError;
use marketplace_domain::{Asset, AssetRefusal, OrderRefusal, PaymentRefusal, ProductRefusal, RefundRefusal};
use serde_json::Value;

use crate::envelope::{Code, Reply, ReplyData};
use crate::messages::{self, Text};

/// How long a client is asked to wait for a dependency, in seconds.
const RETRY_AFTER_S: u32 = 5;
/// How long one is asked to wait for what is on its way, in seconds: the locks of an order's assets, the answer to the same
/// request.
const SOON_S: u32 = 1;

/// An answer that refuses.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    reply: Box<Reply>,
    /// When to come again, in seconds, where it is worth it.
    retry_after_s: Option<u32>,
    /// A header that says more.
    header: Option<(HeaderName, &'static str)>,
}

/// The challenge to a client without a token (RFC 6750 §3): no error, because none was made.
const CHALLENGE: &str = "Bearer";
/// The challenge to a client whose token is refused, whatever the reason.
pub(crate) const BAD_TOKEN_CHALLENGE: &str =
    "Bearer error=\"invalid_token\", error_description=\"the token is not valid or has expired\"";

impl Refusal {
    pub(crate) fn new(code: Code, message: Text) -> Refusal {
        let reply = Reply { code, message, data: ReplyData::Value(Value::Null) };
        let retry_after_s = (code == Code::Away).then_some(RETRY_AFTER_S);
        let header = (code == Code::NotSignedIn).then_some((WWW_AUTHENTICATE, CHALLENGE));
        Refusal { status: code.status(), reply: Box::new(reply), retry_after_s, header }
    }

    /// The token is refused.
    pub(crate) fn bad_token() -> Refusal {
        let header = Some((WWW_AUTHENTICATE, BAD_TOKEN_CHALLENGE));
        Refusal { header, ..Refusal::new(Code::NotSignedIn, messages::BAD_TOKEN) }
    }

    /// The body is encoded (RFC 9110 §15.5.16).
    pub(crate) fn encoded_body() -> Refusal {
        let header = Some((ACCEPT_ENCODING, "identity"));
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Refusal { status, header, ..Refusal::new(Code::Invalid, messages::ENCODED_BODY) }
    }

    /// The time limit of a request is over, and what it began goes on.
    pub(crate) fn outcome_unknown(error: &dyn Display) -> Refusal {
        tracing::warn!(%error, code = Code::OutcomeUnknown.as_str(), "request: outcome unknown");
        Refusal::new(Code::OutcomeUnknown, messages::OUTCOME_UNKNOWN)
    }

    /// Invalid input, with what is wrong with which field.
    pub(crate) fn invalid(errors: Vec<(String, Text)>) -> Refusal {
        let mut refusal = Refusal::new(Code::Invalid, messages::INVALID);
        refusal.reply.data = ReplyData::Errors(errors);
        refusal
    }

    /// Invalid input in one field.
    pub(crate) fn field(name: &str, message: Text) -> Refusal {
        Refusal::invalid(vec![(name.to_owned(), message)])
    }

    /// With data that says more.
    pub(crate) fn with_data(mut self, data: Value) -> Refusal {
        self.reply.data = ReplyData::Value(data);
        self
    }

    /// Worth coming again in a moment.
    pub(crate) fn soon(self) -> Refusal {
        Refusal { retry_after_s: Some(SOON_S), ..self }
    }

    /// No such thing, or not the caller's.
    pub(crate) fn not_found(what: &'static str) -> Refusal {
        Refusal::new(Code::NotFound, messages::not_found(what))
    }

    /// Over the rate limit, for so many seconds.
    pub(crate) fn too_often(retry_after_s: u32) -> Refusal {
        Refusal { retry_after_s: Some(retry_after_s), ..Refusal::new(Code::TooOften, messages::TOO_OFTEN) }
    }

    fn key_taken() -> Refusal {
        Refusal::new(Code::KeyTaken, messages::KEY_TAKEN)
    }

    fn in_progress() -> Refusal {
        Refusal::new(Code::InProgress, messages::IN_PROGRESS).soon()
    }

    /// Our fault: logged here, in the span of the request.
    pub(crate) fn fault(error: &dyn Display) -> Refusal {
        tracing::error!(%error, "a request failed");
        Refusal::new(Code::Fault, messages::FAULT)
    }

    /// A dependency is away: logged here, in the span of the request.
    fn away(error: &dyn Display, message: Text) -> Refusal {
        tracing::warn!(%error, "a request could not be served");
        Refusal::new(Code::Away, message)
    }

    /// What a bare status means.
    pub(crate) fn of_status(status: StatusCode) -> Refusal {
        let (code, message) = match status {
            StatusCode::UNAUTHORIZED => (Code::NotSignedIn, messages::NOT_SIGNED_IN),
            StatusCode::FORBIDDEN => (Code::NotAllowed, messages::NOT_ALLOWED),
            StatusCode::NOT_FOUND => (Code::NotFound, messages::NO_ROUTE),
            StatusCode::METHOD_NOT_ALLOWED => (Code::Invalid, messages::WRONG_METHOD),
            StatusCode::REQUEST_TIMEOUT => (Code::Invalid, messages::TOO_SLOW),
            StatusCode::PAYLOAD_TOO_LARGE => (Code::Invalid, messages::TOO_LARGE),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => (Code::Invalid, messages::NOT_JSON_TYPE),
            StatusCode::TOO_MANY_REQUESTS => (Code::TooOften, messages::TOO_OFTEN),
            StatusCode::SERVICE_UNAVAILABLE => (Code::Away, messages::AWAY),
            other if other.is_client_error() => (Code::Invalid, messages::INVALID),
            _ => (Code::Fault, messages::FAULT),
        };
        Refusal { status, ..Refusal::new(code, message) }
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
        UseCaseError::from(error).into()
    }
}

impl From<UseCaseError> for Refusal {
    fn from(error: UseCaseError) -> Refusal {
        match error {
            UseCaseError::NotFound { what } => Refusal::not_found(what),
            UseCaseError::NotAllowed { .. } => Refusal::new(Code::NotAllowed, messages::NOT_ALLOWED),
            UseCaseError::Order(refusal) => refusal.into(),
            UseCaseError::Product(refusal) => refusal.into(),
            UseCaseError::Payment(refusal) => refusal.into(),
            UseCaseError::Refund(refusal) => refusal.into(),
            UseCaseError::Asset(refusal) => asset_refusal(&refusal, AMOUNTS_OF_A_GIFT),
            UseCaseError::AssetsNotLocked => Refusal::away(&error, messages::NOT_LOCKED_YET).soon(),
            UseCaseError::KeyTaken => Refusal::key_taken(),
            UseCaseError::InProgress => Refusal::in_progress(),
            UseCaseError::NothingHeld => Refusal::new(Code::Conflict, messages::NOTHING_HELD),
            UseCaseError::Store(error) => error.into(),
            UseCaseError::Broker(error) => error.into(),
        }
    }
}

impl From<OrderRefusal> for Refusal {
    fn from(refusal: OrderRefusal) -> Refusal {
        let code = match &refusal {
            OrderRefusal::NotAllowed { .. } => Code::NotAllowed,
            OrderRefusal::WrongStatus { .. } | OrderRefusal::NotOverdue | OrderRefusal::Refunding { .. } => {
                Code::Conflict
            }
            OrderRefusal::Assets(asset) => return asset_refusal(asset, AMOUNTS_OF_AN_ORDER),
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

/// A product can be seen by everybody in its tenant, so there is nothing to hide from who may not touch it.
fn product_code(refusal: &ProductRefusal) -> Code {
    match refusal {
        ProductRefusal::WrongStatus { .. } => Code::Conflict,
        ProductRefusal::OwnProduct | ProductRefusal::NotTheSeller => Code::NotAllowed,
    }
}

impl From<PaymentRefusal> for Refusal {
    fn from(refusal: PaymentRefusal) -> Refusal {
        let text = Text::from(&refusal);
        match refusal {
            PaymentRefusal::WrongAmount { .. } => Refusal::field("amount", text),
            PaymentRefusal::AlreadySettled { .. } | PaymentRefusal::TransactionTaken { .. } => {
                Refusal::new(Code::Conflict, text)
            }
        }
    }
}

impl From<RefundRefusal> for Refusal {
    fn from(refusal: RefundRefusal) -> Refusal {
        Refusal::new(Code::Conflict, Text::from(&refusal))
    }
}

/// The fields that say how much of an asset, by the request they are in.
#[derive(Clone, Copy)]
struct AmountFields {
    money: &'static str,
    points: &'static str,
}

const AMOUNTS_OF_AN_ORDER: AmountFields = AmountFields { money: "walletAmount", points: "points" };
const AMOUNTS_OF_A_GIFT: AmountFields = AmountFields { money: "amount", points: "points" };

/// An amount that cannot be is invalid input; what there is not enough of is a matter of its state.
fn asset_refusal(refusal: &AssetRefusal, fields: AmountFields) -> Refusal {
    let text = Text::from(refusal);
    let of = |asset: Asset| match asset {
        Asset::Points => fields.points,
        Asset::Coupon | Asset::Wallet | Asset::Cash => fields.money,
    };
    match refusal {
        AssetRefusal::MoreThanLeft { asset, .. } | AssetRefusal::TooMuch { asset } => {
            Refusal::field(of(*asset), text)
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
            StoreError::Transient(_) | StoreError::Unavailable(_) => Refusal::away(&error, messages::AWAY),
            StoreError::CommitUnknown(_) => Refusal::outcome_unknown(&error),
            StoreError::Corrupt { .. } | StoreError::Backend(_) => Refusal::fault(&error),
        }
    }
}

impl From<IdempotencyError> for Refusal {
    fn from(error: IdempotencyError) -> Refusal {
        match error {
            IdempotencyError::KeyTaken => Refusal::key_taken(),
            IdempotencyError::InProgress => Refusal::in_progress(),
            IdempotencyError::Store(error) => error.into(),
            IdempotencyError::Away(_) => Refusal::away(&error, messages::NO_KEYS),
        }
    }
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Refusal {
        match &error {
            BrokerError::Unreachable(_) | BrokerError::Closed { .. } => Refusal::away(&error, messages::AWAY),
            BrokerError::Refused { .. } => Refusal::fault(&error),
        }
    }
}
