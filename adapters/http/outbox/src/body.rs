//! Reads request bodies, bounded in size and time. A route that takes a body takes no query parameters.

use std::future::ready;
use std::pin::pin;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::concurrency_limit::RequestPermit;
use crate::fields::{Body as RequestBody, Fields, Parsed};
use crate::limits::{BodyLimits, Limits};
use crate::messages;
use crate::query::Parameters;
use crate::refusal::Refusal;

/// The bytes of a body and the headers of its request.
pub struct RawBody {
    /// Headers of the request.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        Parameters::from_request_parts(&mut parts, state).await?.finish()?;
        require_identity(&parts.headers)?;
        let bytes = read(&parts, body).await?;
        Ok(RawBody { headers: parts.headers, bytes })
    }
}

/// A JSON body.
pub struct JsonBody<B>(pub Parsed<B>);

impl<S: Send + Sync, B: RequestBody> FromRequest<S> for JsonBody<B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        RawBody::from_request(request, state).await?.parse().map(JsonBody)
    }
}

/// A JSON body that may be omitted; it has no fields then.
pub struct OptionalBody<B>(pub Parsed<B>);

impl<S: Send + Sync, B: RequestBody> FromRequest<S> for OptionalBody<B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let body = RawBody::from_request(request, state).await?;
        if body.bytes.is_empty() {
            Ok(OptionalBody(Parsed::new(Fields::empty())))
        } else {
            body.parse().map(OptionalBody)
        }
    }
}

/// An empty object; the body may be omitted.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}

impl RequestBody for EmptyBody {
    fn read(_: &mut Fields) -> EmptyBody {
        EmptyBody {}
    }
}

/// No body, or an empty object.
pub struct NoFields;

impl<S: Send + Sync> FromRequest<S> for NoFields {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let OptionalBody(body) = OptionalBody::<EmptyBody>::from_request(request, state).await?;
        body.command(|_, _| Some(NoFields))
    }
}

impl RawBody {
    /// Parses the body; rejects one whose content type is not JSON.
    fn parse<B: RequestBody>(&self) -> Result<Parsed<B>, Refusal> {
        require_json(&self.headers)?;
        Fields::parse(&self.bytes).map(Parsed::new)
    }
}

/// Rejects a body whose content type is not JSON.
pub fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get_all(CONTENT_TYPE).iter().count() > 1 {
        return Err(Refusal::repeated_content_type());
    }
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json =
        value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if is_json { Ok(()) } else { Err(Refusal::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)) }
}

/// Rejects a body with a content coding other than `identity`.
pub fn require_identity(headers: &HeaderMap) -> Result<(), Refusal> {
    let codings = headers.get_all(CONTENT_ENCODING).into_iter().map(HeaderValue::as_bytes);
    let is_encoded = codings.flat_map(|value| value.split(|byte| *byte == b',')).any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    });
    if is_encoded { Err(Refusal::encoded_body()) } else { Ok(()) }
}

/// Reads a body within the limits of [`crate::Layers`]; without these layers, within the default limits.
pub async fn read(parts: &Parts, body: Body) -> Result<Bytes, Refusal> {
    let limits = parts.extensions.get().copied().unwrap_or_else(|| BodyLimits::from(&Limits::default()));
    let permit = parts.extensions.get::<RequestPermit>();
    let too_large = || Refusal::from_status(StatusCode::PAYLOAD_TOO_LARGE);
    let announced =
        parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > limits.bytes) {
        return Err(too_large());
    }
    let mut reading = pin!(timeout(limits.time, Limited::new(body, limits.bytes).collect()));
    let read = tokio::select! {
        biased;
        read = &mut reading => read,
        // The body is not complete yet: the request releases its permit until the body has arrived.
        () = ready(()) => read_without_permit(reading, permit).await?,
    };
    match read {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::field("body", messages::READ_FAILED)),
        Err(_) => Err(Refusal::from_status(StatusCode::REQUEST_TIMEOUT)),
    }
}

/// Awaits the body without holding the request's permit.
async fn read_without_permit<T>(
    reading: impl Future<Output = T>,
    permit: Option<&RequestPermit>,
) -> Result<T, Refusal> {
    if let Some(permit) = permit {
        permit.release();
    }
    let read = reading.await;
    if let Some(permit) = permit {
        permit.reacquire()?;
    }
    Ok(read)
}
