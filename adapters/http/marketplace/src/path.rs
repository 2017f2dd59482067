//! Ids in paths. A request whose path parameter is not a valid id gets 404, because no such resource can exist.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handover_events::{EventId, IdError};
use marketplace_domain::{OrderId, ProductId, RefundId, UserId};

use crate::refusal::Refusal;

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
        let not_found = || Refusal::not_found(I::WHAT);
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        let number = integer(&text).ok_or_else(not_found)?;
        I::try_from(number).map(PathId).map_err(|_| not_found())
    }
}

/// Extracts the id of a gateway report from the path.
pub(crate) struct PathReport(pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for PathReport {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = || Refusal::not_found("gateway report");
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        integer(&text).map(PathReport).ok_or_else(not_found)
    }
}

/// Extracts an event id from the path.
pub(crate) struct PathEvent(pub(crate) EventId);

impl<S: Send + Sync> FromRequestParts<S> for PathEvent {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = || Refusal::not_found("event");
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        text.try_into().map(PathEvent).map_err(|_| not_found())
    }
}

/// Extracts an aggregate's type and id from the path. Manually inserted rows may contain any type and id, so only the
/// format of the id is checked.
pub(crate) struct PathAggregate {
    pub(crate) kind: String,
    pub(crate) id: i64,
}

impl<S: Send + Sync> FromRequestParts<S> for PathAggregate {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = || Refusal::not_found("blocked aggregate");
        let Path((kind, id)) =
            Path::<(String, String)>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        let id = integer(&id).ok_or_else(not_found)?;
        Ok(PathAggregate { kind, id })
    }
}

/// Parses an integer in canonical form: a resource has one URL, so `+7` and `007` are not accepted.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}
