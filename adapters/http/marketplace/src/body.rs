//! Bodies that the payment gateway signs.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderMap;
use handover_http::body::{read, require_identity, require_json};
use handover_http::fields::{Body, Fields, Parsed};
use handover_http::query::Parameters;
use handover_http::refusal::Refusal;
use sha2::{Digest, Sha256};

use crate::edge::Edge;

/// A report of the gateway: a body in which unknown fields are ignored, because gateways add fields.
pub(crate) trait Report: Body {
    /// The Rust names of its fields.
    const FIELDS: &'static [&'static str];
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
        let bytes = read(&parts, body).await?;
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
