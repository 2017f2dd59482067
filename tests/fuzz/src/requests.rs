//! Decoders of requests: every part that an untrusted client controls.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use chrono::Utc;
use serde_json::Value;
use standardwebhooks::Webhook;

use crate::edge::{CheckedResponse, GATEWAY_SECRET, bearer, send, start_input};

const JSON: &str = "application/json";

/// Sends a callback body with a valid signature of the gateway.
pub(crate) fn callback(bytes: &[u8]) {
    start_input();
    // The gateway's signature contains the current time, because it is checked against the system clock.
    let time = Utc::now().timestamp();
    let signature = Webhook::new(GATEWAY_SECRET).unwrap().sign("msg_1", time, bytes);
    // Bytes that are not UTF-8 cannot be signed; such an input is skipped.
    let Ok(signature) = signature else { return };
    for path in ["/api/v1/payments/callback", "/api/v1/refunds/callback"] {
        let request = Request::post(path)
            .header("content-type", JSON)
            .header("webhook-id", "msg_1")
            .header("webhook-timestamp", time.to_string())
            .header("webhook-signature", &signature)
            .body(Body::from(bytes.to_vec()))
            .unwrap();
        let status = send(request).status;
        assert!([400, 404, 413].contains(&status), "{status}");
    }
}

/// Sends a query with a cursor to a list whose cursor is an id and to a list whose cursor is a log position.
pub(crate) fn cursor(bytes: &[u8]) {
    start_input();
    let query: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    let plain: String = bytes.iter().filter(|byte| byte.is_ascii_graphic()).map(|b| char::from(*b)).collect();
    for path in ["orders", "ops/outbox"] {
        for query in [format!("cursor={query}"), plain.clone()] {
            let request = signed_in(Request::get(format!("/api/v1/{path}?{query}"))).body(Body::empty());
            let Ok(request) = request else { continue };
            let status = send(request).status;
            // 404: the query names a tenant that is not the operator's.
            assert!([200, 400, 404].contains(&status), "{status}");
        }
    }
}

/// Sends a request with this method and target, such as `GET /api/v1/orders/1?limit=2`.
pub(crate) fn target(bytes: &[u8]) {
    start_input();
    let Some((method, uri)) = bytes.iter().position(|byte| *byte == b' ').map(|end| bytes.split_at(end))
    else {
        return;
    };
    let (Ok(method), Ok(uri)) = (Method::from_bytes(method), Uri::try_from(&uri[1..])) else { return };
    // The OpenAPI document and its HTML page are not envelopes.
    let is_document = ["/docs", "/openapi.json"].iter().any(|prefix| uri.path().starts_with(prefix));
    if is_document {
        return;
    }
    let request = signed_in(Request::builder().method(method).uri(uri)).body(Body::empty());
    send(request.unwrap());
}

/// Sends headers, one per line, in an authenticated request, in an anonymous request, and in a callback.
pub(crate) fn headers(bytes: &[u8]) {
    start_input();
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        let value = HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?;
        Some((HeaderName::from_bytes(name).ok()?, value))
    });
    let headers: Vec<(HeaderName, HeaderValue)> = lines.take(100).collect();
    let requests = [
        Request::get("/api/v1/orders").body(Body::empty()).unwrap(),
        signed_in(Request::post("/api/v1/products"))
            .header("content-type", JSON)
            .body(Body::from(r#"{"title":"Desk lamp","price":88.50}"#))
            .unwrap(),
        Request::post("/api/v1/payments/callback")
            .body(Body::from(r#"{"paymentId":1,"gatewayTxnId":"t","result":"SUCCESS","amount":1}"#))
            .unwrap(),
    ];
    for mut request in requests {
        for (name, value) in &headers {
            // Token and content type are replaced, because a request has only one of each.
            if [header::AUTHORIZATION, header::CONTENT_TYPE].contains(name) {
                request.headers_mut().insert(name, value.clone());
            } else {
                request.headers_mut().append(name, value.clone());
            }
        }
        let traces: Vec<String> = trace_ids(&request);
        let response = send(request);
        if let [trace] = traces.as_slice() {
            assert_eq!(response.envelope["traceId"], trace.as_str());
        }
        let parent = response.headers.get("traceparent").unwrap().to_str().unwrap();
        let lengths: Vec<usize> = parent.split('-').map(str::len).collect();
        assert_eq!(lengths, [2, 32, 16, 2], "{parent}");
    }
}

/// The trace ids of a request; none if any of them is invalid. The response must repeat a single valid trace id.
fn trace_ids(request: &Request<Body>) -> Vec<String> {
    let headers: Vec<&[u8]> =
        request.headers().get_all("x-trace-id").iter().map(HeaderValue::as_bytes).collect();
    let legal = |id: &&[u8]| {
        (1..=64).contains(&id.len()) && id.iter().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(b))
    };
    if headers.iter().all(legal) {
        headers.into_iter().map(|id| String::from_utf8_lossy(id).into_owned()).collect()
    } else {
        Vec::new()
    }
}

/// Sends a POST request under a new idempotency key: the first line is the path, the rest is the body. A repeated
/// request gets the same status and code. A success is replayed, even if the JSON is formatted differently.
pub(crate) fn body(bytes: &[u8]) {
    start_input();
    static KEYS: AtomicU64 = AtomicU64::new(1);
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let path = &bytes[..end];
    let body = &bytes[end + 1..];
    let Ok(uri) = Uri::try_from(path) else { return };
    if !uri.path().starts_with("/api/v1/") {
        return;
    }
    let key = KEYS.fetch_add(1, Ordering::Relaxed).to_string();
    let post = |body: Vec<u8>| {
        let request = signed_in(Request::post(uri.clone()))
            .header("content-type", JSON)
            .header("x-idempotency-key", &key)
            .body(Body::from(body));
        send(request.unwrap())
    };
    let first = post(body.to_vec());
    let again = post(body.to_vec());
    assert_eq!((again.status, &again.envelope["code"]), (first.status, &first.envelope["code"]));
    if first.status >= 300 {
        return;
    }
    assert_replayed(&first, &again);
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        assert_replayed(&first, &post(serde_json::to_vec_pretty(&value).unwrap()));
    }
}

fn assert_replayed(first: &CheckedResponse, again: &CheckedResponse) {
    assert_eq!((first.status, &first.envelope["data"]), (again.status, &again.envelope["data"]));
    assert!(again.headers.contains_key("idempotent-replayed"), "executed twice: {again:?}");
}

fn signed_in(request: Builder) -> Builder {
    request.header(header::AUTHORIZATION, format!("Bearer {}", bearer()))
}
