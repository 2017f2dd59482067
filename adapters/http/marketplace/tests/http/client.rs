//! Test client that validates the envelope of every response.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request as HttpRequest, request};
use http_body_util::BodyExt;
use serde_json::Value;
use standardwebhooks::Webhook;
use tower::ServiceExt;

use crate::openapi::DOCUMENT;

/// A request to send.
pub(crate) struct Request {
    router: Router,
    method: String,
    path: String,
    head: request::Builder,
    body: Body,
    text: String,
    /// Whether the response must be described in the OpenAPI document.
    documented: bool,
}

impl Request {
    pub(crate) fn new(router: &Router, method: &str, path: &str) -> Request {
        let head = HttpRequest::builder().method(method).uri(path);
        Request {
            router: router.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            head,
            body: Body::empty(),
            text: String::new(),
            documented: true,
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Request {
        self.head = self.head.header(name, value);
        self
    }

    /// Skips the comparison with the OpenAPI document, for responses that cannot occur in production and are therefore
    /// not in the document.
    pub(crate) fn undocumented(mut self) -> Request {
        self.documented = false;
        self
    }

    pub(crate) fn token(self, token: &str) -> Request {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, body: impl Into<String>) -> Request {
        self.header("content-type", "application/json").text(body)
    }

    pub(crate) fn text(mut self, body: impl Into<String>) -> Request {
        self.text = body.into();
        self.body = Body::from(self.text.clone());
        self
    }

    /// Sets the peer address of the connection.
    pub(crate) fn from(mut self, peer: &str) -> Request {
        let peer: SocketAddr = peer.parse().unwrap();
        self.head = self.head.extension(ConnectInfo(peer));
        self
    }

    pub(crate) fn body(mut self, body: Body) -> Request {
        self.body = body;
        self
    }

    /// Signs the body with a timestamp `seconds` seconds from now.
    pub(crate) fn signed(self, secret: &str, seconds: i64) -> Request {
        let time = system_now() + seconds;
        let signature = Webhook::new(secret).unwrap().sign("msg_1", time, self.text.as_bytes()).unwrap();
        self.header("webhook-id", "msg_1")
            .header("webhook-timestamp", &time.to_string())
            .header("webhook-signature", &signature)
    }

    /// Sends the request; returns status, headers and body as lossy UTF-8.
    pub(crate) async fn send_raw(self) -> (u16, HeaderMap, String) {
        let response = self.router.oneshot(self.head.body(self.body).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends the request and validates envelope, trace id and the OpenAPI document.
    pub(crate) async fn send(self) -> ApiResponse {
        let documented = self.documented;
        let method = self.method.clone();
        let path = self.path.clone();
        let (status, headers, text) = self.send_raw().await;
        assert_eq!(headers["content-type"], "application/json", "{text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["code", "message", "data", "traceId"], "{text}");
        assert!(!body["message"].as_str().unwrap().is_empty(), "{text}");
        let trace_id = body["traceId"].as_str().unwrap().to_owned();
        assert_eq!(headers["x-trace-id"], trace_id.as_str(), "{text}");
        let response = ApiResponse {
            status,
            headers,
            code: body["code"].as_str().unwrap().to_owned(),
            message: body["message"].as_str().unwrap().to_owned(),
            data: body["data"].clone(),
            trace_id,
            text,
        };
        if documented {
            DOCUMENT.check(&method, &path, &response);
        }
        response
    }
}

/// A parsed response.
#[derive(Debug, Clone)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) data: Value,
    pub(crate) trace_id: String,
    pub(crate) text: String,
}

impl ApiResponse {
    #[track_caller]
    pub(crate) fn expect(self, status: u16, code: &str) -> ApiResponse {
        assert_eq!((self.status, self.code.as_str()), (status, code), "{}", self.text);
        self
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// An id in the data.
    #[track_caller]
    pub(crate) fn id(&self, name: &str) -> i64 {
        self.data[name].as_i64().unwrap()
    }

    /// The names of the invalid fields.
    #[track_caller]
    pub(crate) fn wrong_fields(&self) -> Vec<&str> {
        let errors = self.data["errors"].as_array().unwrap();
        assert!(errors.iter().all(|error| !error["message"].as_str().unwrap().is_empty()), "{}", self.text);
        errors.iter().map(|error| error["field"].as_str().unwrap()).collect()
    }

    /// The values of an id field of all items of a page.
    #[track_caller]
    pub(crate) fn ids(&self, name: &str) -> Vec<i64> {
        self.data["items"].as_array().unwrap().iter().map(|item| item[name].as_i64().unwrap()).collect()
    }
}

#[allow(clippy::disallowed_methods, reason = "signatures are verified with the system clock")]
pub(crate) fn system_now() -> i64 {
    chrono::Utc::now().timestamp()
}
