//! Decoders of requests: each part of one that a stranger writes.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use chrono::Utc;
use serde_json::Value;
use standardwebhooks::Webhook;

use crate::edge::{Answer, GATEWAY_SECRET, answered, bearer, begun};

const JSON: &str = "application/json";

/// A body that the gateway signed.
pub(crate) fn callback(bytes: &[u8]) {
    begun();
    // Signatures are judged by the clock of the machine.
    let time = Utc::now().timestamp();
    let signature = Webhook::new(GATEWAY_SECRET).unwrap().sign("msg_1", time, bytes);
    // What is no text cannot be signed.
    let Ok(signature) = signature else { return };
    for path in ["/api/v1/payments/callback", "/api/v1/refunds/callback"] {
        let request = Request::post(path)
            .header("content-type", JSON)
            .header("webhook-id", "msg_1")
            .header("webhook-timestamp", time.to_string())
            .header("webhook-signature", &signature)
            .body(Body::from(bytes.to_vec()))
            .unwrap();
        let status = answered(request).status;
        assert!([400, 404, 413].contains(&status), "{status}");
    }
}

/// A query with its cursor, of a list whose cursor is an id and of one that is a place in a log.
pub(crate) fn cursor(bytes: &[u8]) {
    begun();
    let query: String = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    let plain: String = bytes.iter().filter(|byte| byte.is_ascii_graphic()).map(|b| char::from(*b)).collect();
    for path in ["orders", "ops/outbox"] {
        for query in [format!("cursor={query}"), plain.clone()] {
            let request = signed_in(Request::get(format!("/api/v1/{path}?{query}"))).body(Body::empty());
            let Ok(request) = request else { continue };
            let status = answered(request).status;
            // 404: a tenant that is not the operator's.
            assert!([200, 400, 404].contains(&status), "{status}");
        }
    }
}

/// What a request is for, as in `GET /api/v1/orders/1?limit=2`: any method, ids in the path, parameters.
pub(crate) fn target(bytes: &[u8]) {
    begun();
    let Some((method, uri)) = bytes.iter().position(|byte| *byte == b' ').map(|end| bytes.split_at(end))
    else {
        return;
    };
    let (Ok(method), Ok(uri)) = (Method::from_bytes(method), Uri::try_from(&uri[1..])) else { return };
    // The document and its page are no envelopes.
    let shown = ["/docs", "/openapi.json"].iter().any(|shown| uri.path().starts_with(shown));
    if shown {
        return;
    }
    let request = signed_in(Request::builder().method(method).uri(uri)).body(Body::empty());
    answered(request.unwrap());
}

/// Headers, one a line: of somebody who is signed in, of a stranger, and of the gateway.
pub(crate) fn headers(bytes: &[u8]) {
    begun();
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        let value = HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?;
        Some((HeaderName::from_bytes(name).ok()?, value))
    });
    let given: Vec<(HeaderName, HeaderValue)> = lines.take(100).collect();
    let asked = [
        Request::get("/api/v1/orders").body(Body::empty()).unwrap(),
        signed_in(Request::post("/api/v1/products"))
            .header("content-type", JSON)
            .body(Body::from(r#"{"title":"Desk lamp","price":88.50}"#))
            .unwrap(),
        Request::post("/api/v1/payments/callback")
            .body(Body::from(r#"{"paymentId":1,"gatewayTxnId":"t","result":"SUCCESS","amount":1}"#))
            .unwrap(),
    ];
    for mut request in asked {
        for (name, value) in &given {
            // The token and the kind of the body are replaced, or the request would have two.
            if [header::AUTHORIZATION, header::CONTENT_TYPE].contains(name) {
                request.headers_mut().insert(name, value.clone());
            } else {
                request.headers_mut().append(name, value.clone());
            }
        }
        let traces: Vec<String> = trace_ids(&request);
        let answer = answered(request);
        if let [trace] = traces.as_slice() {
            assert_eq!(answer.envelope["traceId"], trace.as_str());
        }
        let parent = answer.headers.get("traceparent").unwrap().to_str().unwrap();
        let lengths: Vec<usize> = parent.split('-').map(str::len).collect();
        assert_eq!(lengths, [2, 32, 16, 2], "{parent}");
    }
}

/// The trace ids that have to be taken.
fn trace_ids(request: &Request<Body>) -> Vec<String> {
    let given: Vec<&[u8]> =
        request.headers().get_all("x-trace-id").iter().map(HeaderValue::as_bytes).collect();
    let legal = |id: &&[u8]| {
        (1..=64).contains(&id.len()) && id.iter().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(b))
    };
    if given.iter().all(legal) {
        given.into_iter().map(|id| String::from_utf8_lossy(id).into_owned()).collect()
    } else {
        Vec::new()
    }
}

/// A path and, from its second line on, what is posted there under a new idempotency key: a repeat is answered the same,
/// however it is written.
pub(crate) fn body(bytes: &[u8]) {
    begun();
    static KEYS: AtomicU64 = AtomicU64::new(1);
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return };
    let (path, body) = (&bytes[..end], &bytes[end + 1..]);
    let Ok(uri) = Uri::try_from(path) else { return };
    if !uri.path().starts_with("/api/v1/") {
        return;
    }
    let key = KEYS.fetch_add(1, Ordering::Relaxed).to_string();
    let ask = |body: Vec<u8>| {
        let request = signed_in(Request::post(uri.clone()))
            .header("content-type", JSON)
            .header("x-idempotency-key", &key)
            .body(Body::from(body));
        answered(request.unwrap())
    };
    let first = ask(body.to_vec());
    let again = ask(body.to_vec());
    assert_eq!((again.status, &again.envelope["code"]), (first.status, &first.envelope["code"]));
    if first.status >= 300 {
        return;
    }
    repeats(&first, &again);
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        repeats(&first, &ask(serde_json::to_vec_pretty(&value).unwrap()));
    }
}

fn repeats(first: &Answer, again: &Answer) {
    assert_eq!((first.status, &first.envelope["data"]), (again.status, &again.envelope["data"]));
    assert!(again.headers.contains_key("idempotent-replayed"), "done twice: {again:?}");
}

fn signed_in(request: Builder) -> Builder {
    request.header(header::AUTHORIZATION, format!("Bearer {}", bearer()))
}
