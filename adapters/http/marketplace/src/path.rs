//! Ids in paths. A request whose path parameter is not a valid id gets 404, because no such resource can exist.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handover_events::IdError;
use handover_http::path::integer;
use handover_http::refusal::Refusal;
use marketplace_domain::{InvoiceId, OrderId, PaymentId, ProductId, RefundId, UserId};

use crate::refusal::not_found;

/// An id used as a path parameter.
pub(crate) trait InPath: TryFrom<i64, Error = IdError> {
    /// Name of the resource, for the error message.
    const WHAT: &'static str;
}

impl InPath for ProductId {
    const WHAT: &'static str = "product";
}

impl InPath for OrderId {
    const WHAT: &'static str = "order";
}

impl InPath for InvoiceId {
    const WHAT: &'static str = "invoice";
}

impl InPath for PaymentId {
    const WHAT: &'static str = "payment";
}

impl InPath for RefundId {
    const WHAT: &'static str = "refund";
}

impl InPath for UserId {
    const WHAT: &'static str = "user";
}

/// Extracts an id from the path.
pub(crate) struct PathId<I>(pub(crate) I);

impl<S: Send + Sync, I: InPath + Send> FromRequestParts<S> for PathId<I> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = text.map_err(|_| not_found(I::WHAT))?;
        id(&text).map(PathId)
    }
}

/// Extracts an order and one of its payments from the path.
pub(crate) struct PathPayment {
    pub(crate) order: OrderId,
    pub(crate) payment: PaymentId,
}

impl<S: Send + Sync> FromRequestParts<S> for PathPayment {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let texts = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((order, payment)) = texts.map_err(|_| not_found(OrderId::WHAT))?;
        Ok(PathPayment { order: id(&order)?, payment: id(&payment)? })
    }
}

fn id<I: InPath>(text: &str) -> Result<I, Refusal> {
    let number = integer(text).and_then(|number| I::try_from(number).ok());
    number.ok_or_else(|| not_found(I::WHAT))
}

/// The number of a row that has no type of its own, used as a path parameter.
macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$meta])*
        pub(crate) struct $name(pub(crate) i64);

        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = Refusal;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
                let refused = || not_found($what);
                let text = Path::<String>::from_request_parts(parts, state).await;
                let Path(text) = text.map_err(|_| refused())?;
                integer(&text).map($name).ok_or_else(refused)
            }
        }
    )*};
}

numbers! {
    /// Extracts the id of a gateway report from the path.
    PathReport = "gateway report";
    /// Extracts the id of a recorded finding from the path.
    PathFinding = "finding";
}
