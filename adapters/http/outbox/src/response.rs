//! Responses of route handlers, and their serialization.
//!
//! A route returns an empty response with a [`Reply`] as extension. The outermost layer serializes the reply: there the
//! trace id and the language are known, and responses of other layers, which have no `Reply`, pass through it, too.

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use handover_outbox::Page;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::envelope::{Code, Reply, ReplyData, SecretData};
use crate::header_names::X_TRACE_ID;
use crate::language::Language;
use crate::refusal::Refusal;
use crate::response_headers::add_security_headers;

/// A successful response.
#[derive(Debug)]
pub struct Done {
    status: StatusCode,
    data: Box<RawValue>,
}

/// A page of a list, and the cursor of the next page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PageView<V> {
    items: Vec<V>,
    next_cursor: Option<String>,
}

/// A successful response with a secret. A layer that stores responses stores it without the secret
/// ([`ReplyData::storable`]).
#[derive(Debug)]
pub struct DoneWithSecret {
    status: StatusCode,
    data: SecretData,
}

impl DoneWithSecret {
    /// A response with this status. `view` builds the data with the secret, and without it.
    pub fn new<V: Serialize>(
        status: StatusCode,
        secret: String,
        view: impl Fn(Option<String>) -> V,
    ) -> Result<DoneWithSecret, Refusal> {
        let json = |secret| to_raw_value(&view(secret)).map_err(|error| Refusal::internal(&error));
        let data = SecretData { shown: json(Some(secret))?, without_secret: json(None)? };
        Ok(DoneWithSecret { status, data })
    }
}

impl IntoResponse for DoneWithSecret {
    fn into_response(self) -> Response {
        let data = ReplyData::WithSecret(self.data);
        Reply { code: Code::DONE, message: Code::DONE.message(), data }.into_response(self.status)
    }
}

/// Result of a route handler.
pub type RouteResult = Result<Done, Refusal>;

impl Done {
    /// 200 with this data. `E` is the error of the route handler.
    pub fn ok<E: From<Refusal>>(data: &impl Serialize) -> Result<Done, E> {
        Done::with(StatusCode::OK, data)
    }

    /// 201 with this data.
    pub fn created<E: From<Refusal>>(data: &impl Serialize) -> Result<Done, E> {
        Done::with(StatusCode::CREATED, data)
    }

    /// 202 with this data.
    pub fn accepted<E: From<Refusal>>(data: &impl Serialize) -> Result<Done, E> {
        Done::with(StatusCode::ACCEPTED, data)
    }

    /// 200 with a page of views.
    pub fn page<T, V: Serialize, E: From<Refusal>>(page: Page<T>, view: impl Fn(T) -> V) -> Result<Done, E> {
        let items = page.items.into_iter().map(view).collect();
        Done::ok(&PageView { items, next_cursor: page.next.map(|id| id.to_string()) })
    }

    /// The response to a repeated request, built from the stored status and data, which is JSON.
    pub fn stored(status: u16, data: String) -> RouteResult {
        let status = StatusCode::from_u16(status).map_err(|error| Refusal::internal(&error))?;
        let data = RawValue::from_string(data).map_err(|error| Refusal::internal(&error))?;
        Ok(Done { status, data })
    }

    fn with<E: From<Refusal>>(status: StatusCode, data: &impl Serialize) -> Result<Done, E> {
        let data = to_raw_value(data).map_err(|error| Refusal::internal(&error))?;
        Ok(Done { status, data })
    }
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        let reply =
            Reply { code: Code::DONE, message: Code::DONE.message(), data: ReplyData::Json(self.data) };
        reply.into_response(self.status)
    }
}

/// Serializes the response and adds the security headers and the trace id. An error response without a [`Reply`] gets the
/// envelope of its status; a successful one, such as `/metrics`, is unchanged.
pub(crate) fn write_envelope(response: Response, trace_id: &str, language: Language) -> Response {
    let response = match (response.extensions().get::<Reply>(), response.status()) {
        (None, status) if status.is_client_error() || status.is_server_error() => {
            let (parts, _) = response.into_parts();
            let mut enveloped = Refusal::from_status(status).into_response();
            for (name, value) in &parts.headers {
                enveloped.headers_mut().entry(name).or_insert_with(|| value.clone());
            }
            enveloped
        }
        (Some(_), _) | (None, _) => response,
    };
    let (mut parts, body) = response.into_parts();
    let body = match parts.extensions.remove::<Reply>() {
        Some(reply) => {
            parts.headers.remove(CONTENT_LENGTH);
            parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Body::from(reply.write(trace_id, language))
        }
        None => body,
    };
    add_security_headers(&mut parts.headers);
    if let Ok(value) = HeaderValue::from_str(trace_id) {
        parts.headers.insert(X_TRACE_ID, value);
    }
    Response::from_parts(parts, body)
}
