//! Reads bodies: bounded in size and in time. A request that has one says everything in it: its address takes no parameters.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::edge::{Edge, Limits};
use crate::fields::Fields;
use crate::messages;
use crate::query::Parameters;
use crate::refusal::Refusal;
use crate::shed::Place;

/// The bytes of a body and the headers they came with.
pub(crate) struct RawBody {
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl FromRequest<Arc<Edge>> for RawBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        Parameters::from_request_parts(&mut parts, edge).await?.finish()?;
        if is_encoded(&parts.headers) {
            return Err(Refusal::encoded_body());
        }
        let place = parts.extensions.get::<Place>();
        let bytes = read(&parts.headers, body, &edge.limits, place).await?;
        Ok(RawBody { headers: parts.headers, bytes })
    }
}

/// The fields of a JSON object.
pub(crate) struct JsonBody(pub(crate) Fields);

impl FromRequest<Arc<Edge>> for JsonBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        RawBody::from_request(request, edge).await?.fields().map(JsonBody)
    }
}

/// The fields of a JSON object, or none where there is no body.
pub(crate) struct OptionalBody(pub(crate) Fields);

impl FromRequest<Arc<Edge>> for OptionalBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let body = RawBody::from_request(request, edge).await?;
        if body.bytes.is_empty() { Ok(OptionalBody(Fields::none())) } else { body.fields().map(OptionalBody) }
    }
}

impl RawBody {
    /// Its fields, if it says that it is JSON and is.
    pub(crate) fn fields(&self) -> Result<Fields, Refusal> {
        if !is_json(&self.headers) {
            return Err(Refusal::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        Fields::parse(&self.bytes)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether the body is compressed: it is read as it comes.
fn is_encoded(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(CONTENT_ENCODING).into_iter().map(HeaderValue::as_bytes);
    codings.flat_map(|value| value.split(|byte| *byte == b',')).any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

async fn read(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
    place: Option<&Place>,
) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::of_status(StatusCode::PAYLOAD_TOO_LARGE);
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > limits.body_bytes) {
        return Err(too_large());
    }
    let mut reading = pin!(timeout(limits.body_read, Limited::new(body, limits.body_bytes).collect()));
    let read = tokio::select! {
        biased;
        read = &mut reading => read,
        // It is not all here yet.
        () = ready(()) => waited(reading, place).await?,
    };
    match read {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::field("body", messages::BROKEN_BODY)),
        Err(_) => Err(Refusal::of_status(StatusCode::REQUEST_TIMEOUT)),
    }
}

/// What comes of it, without holding a place meanwhile.
async fn waited<T>(reading: impl Future<Output = T>, place: Option<&Place>) -> Result<T, Refusal> {
    if let Some(place) = place {
        place.give_back();
    }
    let read = reading.await;
    if let Some(place) = place {
        place.take_again()?;
    }
    Ok(read)
}
