//! Ids in paths. A request whose path parameter is not a valid id gets 404, because no such resource can exist.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handover_events::{AggregateId, EventId};

use crate::refusal::Refusal;

/// Extracts an event id from the path.
pub struct PathEvent(pub EventId);

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
pub struct PathAggregate {
    /// Type of the aggregate.
    pub kind: String,
    /// Id of the aggregate ([`AggregateId::parse`]).
    pub id: AggregateId,
}

impl<S: Send + Sync> FromRequestParts<S> for PathAggregate {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = || Refusal::not_found("blocked aggregate");
        let Path((kind, id)) =
            Path::<(String, String)>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        let id = AggregateId::parse(&id).map_err(|_| not_found())?;
        Ok(PathAggregate { kind, id })
    }
}

/// Parses an integer in canonical form: a resource has one URL, so `+7` and `007` are not accepted.
pub fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}
