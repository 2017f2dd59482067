//! Ids in paths: what is no id names nothing, so it is not found.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handover_domain::{IdError, OrderId, ProductId};

use crate::refusal::Refusal;

/// An id that can stand in a path.
pub(crate) trait InPath: TryFrom<i64, Error = IdError> {
    /// What it is an id of.
    const WHAT: &'static str;
}

impl InPath for ProductId {
    const WHAT: &'static str = "product";
}

impl InPath for OrderId {
    const WHAT: &'static str = "order";
}

/// The id in the path.
pub(crate) struct PathId<I>(pub(crate) I);

impl<S: Send + Sync, I: InPath + Send> FromRequestParts<S> for PathId<I> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = || Refusal::not_found(I::WHAT);
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        let number: i64 = text.parse().map_err(|_| not_found())?;
        // One thing has one address: not `+7`, not `007`.
        if number.to_string() != text {
            return Err(not_found());
        }
        I::try_from(number).map(PathId).map_err(|_| not_found())
    }
}
