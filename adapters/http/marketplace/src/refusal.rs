//! Error codes of the marketplace, and error responses for the errors of its use cases and its domain.

use std::convert::Infallible;

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use handover_http::envelope::{Code, RETRY_SOON_S};
use handover_http::header_names::REPLAYED;
use handover_http::refusal::Refusal;
use handover_http::response::Done;
use handover_outbox::operations::OperationError;
use handover_outbox::ports::StoreError;
use marketplace::ports::{IdempotencyError, StoredResponse};
use marketplace::use_cases::{NotAllowed, PaymentCommandRefusal, RefundCommandRefusal, UseCaseError};
use marketplace_domain::{Asset, AssetRefusal, InvoiceRefusal, OrderRefusal, ProductRefusal, RefundRefusal};

use crate::messages::{self, Message};

/// A request with the same idempotency key is being processed.
pub(crate) const IN_PROGRESS: Code = Code::new(
    "A0401",
    "REQUEST_IN_PROGRESS",
    StatusCode::CONFLICT,
    ["the same request is being processed; retry to get its response", "请求处理中,请勿重复提交"],
)
.with_retry_after(RETRY_SOON_S);
/// The idempotency key was used for another request.
pub(crate) const KEY_REUSED: Code = Code::new(
    "A0422",
    "IDEMPOTENCY_KEY_REUSED",
    StatusCode::UNPROCESSABLE_ENTITY,
    ["the idempotency key was used for another request", "该幂等键已用于其他请求"],
);

/// Result of a route handler.
pub(crate) type RouteResult = Result<Done, RouteError>;

/// Why a route does not execute a request: a refusal, into which the errors of the marketplace are converted, or the
/// response that is stored for its idempotency key.
#[derive(Debug)]
pub(crate) enum RouteError {
    Refused(Refusal),
    Replayed(StoredResponse),
}

impl IntoResponse for RouteError {
    fn into_response(self) -> Response {
        match self {
            RouteError::Refused(refusal) => refusal.into_response(),
            RouteError::Replayed(stored) => replay(stored).unwrap_or_else(IntoResponse::into_response),
        }
    }
}

/// Builds the response to a repeated request from the stored one.
fn replay(stored: StoredResponse) -> Result<Response, Refusal> {
    let mut response = Done::stored(stored.code, stored.text)?.into_response();
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}

/// The resource does not exist, or is not visible to the caller.
pub(crate) fn not_found(what: &'static str) -> Refusal {
    Refusal::new(Code::NOT_FOUND, messages::not_found(what))
}

impl From<Refusal> for RouteError {
    fn from(refusal: Refusal) -> RouteError {
        RouteError::Refused(refusal)
    }
}

impl From<OperationError> for RouteError {
    fn from(error: OperationError) -> RouteError {
        RouteError::Refused(error.into())
    }
}

impl From<StoreError> for RouteError {
    fn from(error: StoreError) -> RouteError {
        RouteError::Refused(error.into())
    }
}

impl<R: Into<RouteError>> From<UseCaseError<R>> for RouteError {
    fn from(error: UseCaseError<R>) -> RouteError {
        match error {
            UseCaseError::NotFound { what } => not_found(what).into(),
            UseCaseError::NotAllowed(missing) => missing.into(),
            UseCaseError::Refused(refusal) => refusal.into(),
            UseCaseError::KeyReused => Refusal::of(KEY_REUSED).into(),
            UseCaseError::InProgress => Refusal::of(IN_PROGRESS).into(),
            UseCaseError::Replayed(stored) => RouteError::Replayed(stored),
            UseCaseError::Store(error) => error.into(),
        }
    }
}

impl From<NotAllowed> for RouteError {
    fn from(_: NotAllowed) -> RouteError {
        Refusal::of(Code::NOT_ALLOWED).into()
    }
}

impl From<Infallible> for RouteError {
    fn from(never: Infallible) -> RouteError {
        match never {}
    }
}

impl From<PaymentCommandRefusal> for RouteError {
    fn from(refusal: PaymentCommandRefusal) -> RouteError {
        match refusal {
            PaymentCommandRefusal::Order(refusal) => refusal.into(),
            PaymentCommandRefusal::Invoice(refusal) => refusal.into(),
            PaymentCommandRefusal::AssetsNotLocked => {
                Refusal::unavailable(&refusal, messages::NOT_LOCKED_YET).retry_soon().into()
            }
            PaymentCommandRefusal::OtherMethod { running } => {
                Refusal::new(Code::CONFLICT, messages::other_method(&refusal, running)).into()
            }
        }
    }
}

impl From<RefundCommandRefusal> for RouteError {
    fn from(refusal: RefundCommandRefusal) -> RouteError {
        match refusal {
            RefundCommandRefusal::Order(refusal) => refusal.into(),
            RefundCommandRefusal::Invoice(refusal) => refusal.into(),
            RefundCommandRefusal::Refund(refusal) => refusal.into(),
        }
    }
}

/// Names the fields of an operator's grant. The asset refusal of an order is [`OrderRefusal::Assets`].
impl From<AssetRefusal> for RouteError {
    fn from(refusal: AssetRefusal) -> RouteError {
        asset_refusal(&refusal, GRANT_AMOUNT_FIELDS).into()
    }
}

impl From<OrderRefusal> for RouteError {
    fn from(refusal: OrderRefusal) -> RouteError {
        let code = match &refusal {
            OrderRefusal::NotAllowed { .. } => Code::NOT_ALLOWED,
            OrderRefusal::WrongStatus { .. } | OrderRefusal::NotOverdue | OrderRefusal::Refunding { .. } => {
                Code::CONFLICT
            }
            OrderRefusal::Assets(asset) => return asset_refusal(asset, ORDER_AMOUNT_FIELDS).into(),
            OrderRefusal::Product(product) => product_code(product),
        };
        Refusal::new(code, refusal.message()).into()
    }
}

impl From<ProductRefusal> for RouteError {
    fn from(refusal: ProductRefusal) -> RouteError {
        Refusal::new(product_code(&refusal), refusal.message()).into()
    }
}

/// Products are visible to every user of their tenant, so a caller without permission gets 403 and not 404.
fn product_code(refusal: &ProductRefusal) -> Code {
    match refusal {
        ProductRefusal::WrongStatus { .. } => Code::CONFLICT,
        ProductRefusal::OwnProduct | ProductRefusal::NotTheSeller => Code::NOT_ALLOWED,
    }
}

impl From<RefundRefusal> for RouteError {
    fn from(refusal: RefundRefusal) -> RouteError {
        Refusal::new(Code::CONFLICT, refusal.message()).into()
    }
}

impl From<InvoiceRefusal> for RouteError {
    fn from(refusal: InvoiceRefusal) -> RouteError {
        Refusal::new(Code::CONFLICT, refusal.message()).into()
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
    let text = refusal.message();
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
        | AssetRefusal::BeyondCommitted { .. } => Refusal::new(Code::CONFLICT, text),
    }
}

impl From<IdempotencyError> for RouteError {
    fn from(error: IdempotencyError) -> RouteError {
        match error {
            IdempotencyError::KeyReused => Refusal::of(KEY_REUSED).into(),
            IdempotencyError::InProgress => Refusal::of(IN_PROGRESS).into(),
            IdempotencyError::Store(error) => error.into(),
            IdempotencyError::Unavailable(_) => {
                Refusal::unavailable(&error, messages::KEY_STORE_UNAVAILABLE).into()
            }
        }
    }
}
