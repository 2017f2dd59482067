//! Ids in paths: what is no id names nothing, so it is not found.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handover_events::{EventId, IdError};
use marketplace_domain::{OrderId, ProductId, UserId};

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

impl InPath for UserId {
    const WHAT: &'static str = "user";
}

/// The id in the path.
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

/// The event id in the path.
pub(crate) struct PathEvent(pub(crate) EventId);

impl<S: Send + Sync> FromRequestParts<S> for PathEvent {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = || Refusal::not_found("event");
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        text.try_into().map(PathEvent).map_err(|_| not_found())
    }
}

/// The aggregate in the path: its type and its id, which a row inserted by hand may have from anywhere.
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

/// One thing has one address: not `+7`, not `007`.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}
