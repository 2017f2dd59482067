//! Reads request bodies, bounded in size and time. A route that takes a body takes no query parameters.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use crate::bodies::EmptyBody;
use crate::concurrency_limit::RequestPermit;
use crate::edge::Edge;
use crate::fields::{Body as RequestBody, Fields, Parsed, Report};
use crate::limits::Limits;
use crate::messages;
use crate::query::Parameters;
use crate::refusal::Refusal;

/// The bytes of a body and the headers of its request.
pub(crate) struct RawBody {
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl FromRequest<Arc<Edge>> for RawBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        Parameters::from_request_parts(&mut parts, edge).await?.finish()?;
        require_identity(&parts.headers)?;
        let permit = parts.extensions.get::<RequestPermit>();
        let bytes = read(&parts.headers, body, &edge.limits, permit).await?;
        Ok(RawBody { headers: parts.headers, bytes })
    }
}

/// A JSON body.
pub(crate) struct JsonBody<B>(pub(crate) Parsed<B>);

impl<B: RequestBody> FromRequest<Arc<Edge>> for JsonBody<B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        RawBody::from_request(request, edge).await?.parse().map(JsonBody)
    }
}

/// A JSON body that may be omitted; it has no fields then.
pub(crate) struct OptionalBody<B>(pub(crate) Parsed<B>);

impl<B: RequestBody> FromRequest<Arc<Edge>> for OptionalBody<B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let body = RawBody::from_request(request, edge).await?;
        if body.bytes.is_empty() {
            Ok(OptionalBody(Parsed::new(Fields::empty())))
        } else {
            body.parse().map(OptionalBody)
        }
    }
}

/// No body, or an empty object.
pub(crate) struct NoFields;

impl FromRequest<Arc<Edge>> for NoFields {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let OptionalBody(body) = OptionalBody::<EmptyBody>::from_request(request, edge).await?;
        body.command(|_, _| Some(NoFields))
    }
}

/// A body with a valid signature. It may be unreadable: it is authentic nevertheless, so the route records it.
pub(crate) struct SignedBody<B> {
    pub(crate) body: Result<Parsed<B>, Refusal>,
    /// SHA-256 of the received bytes, in hexadecimal.
    pub(crate) hash: String,
}

impl<B: Report> FromRequest<Arc<Edge>> for SignedBody<B> {
    type Rejection = Refusal;

    async fn from_request(request: Request, edge: &Arc<Edge>) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let permit = parts.extensions.get::<RequestPermit>();
        let bytes = read(&parts.headers, body, &edge.limits, permit).await?;
        edge.callbacks.verify(&parts.headers, &bytes)?;
        let parameters = Parameters::from_request_parts(&mut parts, edge).await;
        let body =
            parameters.and_then(Parameters::finish).and_then(|()| parse_report(&parts.headers, &bytes));
        Ok(SignedBody { body, hash: sha256(&bytes) })
    }
}

fn parse_report<B: Report>(headers: &HeaderMap, bytes: &[u8]) -> Result<Parsed<B>, Refusal> {
    require_identity(headers)?;
    require_json(headers)?;
    Fields::parse_known(bytes, B::FIELDS).map(Parsed::new)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl RawBody {
    /// Parses the body; rejects one whose content type is not JSON.
    fn parse<B: RequestBody>(&self) -> Result<Parsed<B>, Refusal> {
        require_json(&self.headers)?;
        Fields::parse(&self.bytes).map(Parsed::new)
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get_all(CONTENT_TYPE).iter().count() > 1 {
        return Err(Refusal::repeated_content_type());
    }
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json =
        value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if is_json { Ok(()) } else { Err(Refusal::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)) }
}

/// Rejects a body with a content coding other than `identity`.
fn require_identity(headers: &HeaderMap) -> Result<(), Refusal> {
    let codings = headers.get_all(CONTENT_ENCODING).into_iter().map(HeaderValue::as_bytes);
    let is_encoded = codings.flat_map(|value| value.split(|byte| *byte == b',')).any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    });
    if is_encoded { Err(Refusal::encoded_body()) } else { Ok(()) }
}

async fn read(
    headers: &HeaderMap,
    body: Body,
    limits: &Limits,
    permit: Option<&RequestPermit>,
) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::from_status(StatusCode::PAYLOAD_TOO_LARGE);
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > limits.body_bytes) {
        return Err(too_large());
    }
    let mut reading = pin!(timeout(limits.body_read, Limited::new(body, limits.body_bytes).collect()));
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
