//! Ids in paths. A request whose path parameter is not a valid id gets 404, because no such resource can exist.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handover_events::IdError;
use handover_http::path::integer;
use handover_http::refusal::Refusal;
use marketplace_domain::{InvoiceId, OrderId, ProductId, RefundId, UserId};

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
        let refused = || not_found(I::WHAT);
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| refused())?;
        let number = integer(&text).ok_or_else(refused)?;
        I::try_from(number).map(PathId).map_err(|_| refused())
    }
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
