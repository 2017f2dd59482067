//! Ids in paths. A request whose path parameter is not a valid id gets 404, because no such resource can exist.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handover_events::{AggregateId, EventId, TextError};
use handover_outbox::ports::EndpointId;

use crate::refusal::Refusal;
use crate::value_limits::MAX_TYPE_CHARS;

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

/// Extracts an aggregate's type and id from the path. Manually inserted rows may contain any type and id, so of the type
/// only the length and control characters are checked: PostgreSQL refuses a text with the character NUL.
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
        TextError::check(&kind, MAX_TYPE_CHARS).map_err(|_| not_found())?;
        let id = AggregateId::parse(&id).map_err(|_| not_found())?;
        Ok(PathAggregate { kind, id })
    }
}

/// Extracts the id of a webhook endpoint from the path.
pub(crate) struct PathEndpoint(pub(crate) EndpointId);

impl<S: Send + Sync> FromRequestParts<S> for PathEndpoint {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = || Refusal::not_found("webhook endpoint");
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| not_found())?;
        endpoint_id(&text).map(PathEndpoint).ok_or_else(not_found)
    }
}

/// Extracts the ids of a webhook endpoint and of one of its deliveries from the path.
pub(crate) struct PathDelivery {
    pub(crate) endpoint: EndpointId,
    pub(crate) delivery: i64,
}

impl<S: Send + Sync> FromRequestParts<S> for PathDelivery {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let not_found = |what| move || Refusal::not_found(what);
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((endpoint, delivery)) = path.map_err(|_| not_found("webhook endpoint")())?;
        let endpoint = endpoint_id(&endpoint).ok_or_else(not_found("webhook endpoint"))?;
        let delivery = integer(&delivery).ok_or_else(not_found("webhook delivery"))?;
        Ok(PathDelivery { endpoint, delivery })
    }
}

/// Parses an id in canonical form: lower case, with hyphens.
fn endpoint_id(text: &str) -> Option<EndpointId> {
    let id = text.parse().ok().map(EndpointId)?;
    (id.to_string() == text).then_some(id)
}

/// Parses an integer in canonical form: a resource has one URL, so `+7` and `007` are not accepted.
pub fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}
