//! Samples of each decoder: fixed samples, and samples derived from the OpenAPI document and the configuration.

use handover_runtime::config::{Configuration, Shown, Sources};
use marketplace_domain::EventKind;
use marketplace_wiring::settings::Config;
use serde_json::{Map, Value, json};

const ENVELOPE: &str =
    include_str!("../../../domain/marketplace/tests/golden/order_created_with_assets.json");

/// An Ed25519 key (RFC 8032 §7.1, test 1), and a random RSA modulus of 2048 bits without a private key.
pub(crate) const KEYS: &str = include_str!("keys.json");

fn owned(samples: &[&str]) -> Vec<Vec<u8>> {
    samples.iter().map(|sample| sample.as_bytes().to_vec()).collect()
}

pub(crate) fn envelope() -> Vec<Vec<u8>> {
    let mut samples = owned(&[
        ENVELOPE,
        r#"{"eventId":"e","eventType":"INVOICE_GENERATED","aggregateType":"Invoice","aggregateId":4,"occurredAt":"2026-02-04T10:30:00.25Z","traceId":"t","payload":{"invoiceId":4,"periodStart":"2026-02-01","periodEnd":"2026-02-28","total":1.20,"currency":"CNY"}}"#,
    ]);
    samples.extend(events());
    samples
}

/// An envelope of every type. Unknown payload fields are ignored, so one payload fits all types.
fn events() -> Vec<Vec<u8>> {
    let payload = r#"{"orderId":900001,"orderNo":"202602041030001234","buyerId":10001,"sellerId":10002,"totalAmount":88.50,"productId":70001,"quantity":1,"price":88.50,"payTime":"2026-02-04T10:31:00Z","amount":88.50,"oldStatus":"paid","newStatus":"shipped","changedAt":"2026-02-04T10:31:00Z","createTime":"2026-02-04T10:30:00Z","reason":"timeout","cancelledAt":"2026-02-04T10:31:00Z","refundId":5,"refundedAt":"2026-02-04T10:31:00Z","paymentId":6,"transactionId":"txn-1","currency":"CNY","paymentMethod":"online","occurredTime":"2026-02-04T10:31:00Z"}"#;
    let envelope = |event_type: &EventKind| {
        format!(
            r#"{{"eventId":"0192f0c1-0000-7000-8000-000000000001","eventType":"{event_type}","aggregateType":"Order","aggregateId":900001,"occurredAt":"2026-02-04T10:30:00Z","traceId":"trace-xxx","payload":{payload}}}"#
        )
    };
    EventKind::ALL.iter().map(|event_type| envelope(event_type).into_bytes()).collect()
}

pub(crate) fn token() -> Vec<Vec<u8>> {
    owned(&[
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3IiwiZXhwIjo0MDAwMDAwMDAwfQ.c2lnbmF0dXJl",
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiI3IiwiZXhwIjo0MDAwMDAwMDAwfQ.",
        // The headers are {"alg":"EdDSA","kid":"ed","typ":"JWT"} and {"alg":"RS256","kid":"rsa"}.
        "eyJhbGciOiJFZERTQSIsImtpZCI6ImVkIiwidHlwIjoiSldUIn0.eyJzdWIiOiI3IiwiZXhwIjo0MDAwMDAwMDAwfQ.c2lnbmF0dXJl",
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJzdWIiOiI3IiwiZXhwIjo0MDAwMDAwMDAwfQ.c2lnbmF0dXJl",
    ])
}

pub(crate) fn claims() -> Vec<Vec<u8>> {
    owned(&[
        r#"{"sub":"7","tenant":1,"roles":["user","operator"],"iat":1769846400,"exp":4000000000,"nbf":0}"#,
        r#"{"sub":7,"exp":4000000000.5}"#,
        r#"{"sub":7,"exp":4000000000,"iss":"us","aud":["handover","other"],"roles":["platform"]}"#,
    ])
}

pub(crate) fn keys() -> Vec<Vec<u8>> {
    owned(&[
        KEYS,
        r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"p","x":"AA","y":"AA"},{"kty":"oct","kid":"s","k":"AA"}]}"#,
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","use":"sig","key_ops":["verify"],"x":"AA","d":"AA"}]}"#,
    ])
}

pub(crate) fn config() -> Vec<Vec<u8>> {
    let mut samples = owned(&[
        "[order.timeout]\npending-minutes = 0.05\nsweep-interval = \"30s\"\n[outbox]\nbatch = 200\nretry = { policy = \"schedule\", delays = [\"5s\", \"30s\"] }\n",
        "[http]\nlisten = \"127.0.0.1:8080\"\n[database]\nurl = \"sqlite://handover.db\"\n[broker]\nurl = \"amqp://a:b@localhost/%2f\"\n",
        "[outbox]\nretry = { policy = \"exponential\", base = \"5s\", cap = \"1h\", max-attempts = 5, jitter = 0.2 }\n",
        "[http]\nops-listen = \"[::1]:8081\"\ncors-origins = [\"https://a.example\"]\ntrusted-proxies = [\"10.0.0.0/8\", \"fd00::/8\"]\nforwarded-header = \"forwarded\"\n",
        "[rate-limit]\nstore = \"redis\"\nroutes = { \"POST /api/v1/orders\" = { capacity = 20, per-second = 0.5 } }\n[redis]\nurl = \"redis://:secret@localhost:6379/0\"\n",
        "[database]\nurl = \"postgres://a:b@localhost:5432/handover?sslmode=disable\"\n[broker]\nurl = \"amqp://a:b@h1:5672,h2:5672/v?heartbeat=10\"\n",
        "[database]\nurl = \"mysql://a:b@localhost:3306/handover\"\n[gateway]\nurl = \"https://pay.example/v1\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n",
    ]);
    samples.extend(defaults());
    samples
}

/// One configuration file per key, with one line: the key and its default. The decoder also reads the line as an
/// environment variable.
fn defaults() -> Vec<Vec<u8>> {
    let described = Config::describe(&Sources::default());
    let lines = described.settings.into_iter().map(|setting| match setting.value {
        Shown::Value { text, .. } => format!("{} = {text}\n", setting.key),
        Shown::Hidden | Shown::Generated | Shown::Unset => format!("{} = \"\"\n", setting.key),
    });
    lines.map(String::into_bytes).collect()
}

pub(crate) fn callback() -> Vec<Vec<u8>> {
    owned(&[
        r#"{"paymentId":1,"gatewayTxnId":"txn-1","result":"SUCCESS","amount":88.50}"#,
        r#"{"reference":"0192f0c1-0000-7000-8000-000000000001","gatewayTxnId":"txn-1","result":"FAILED","amount":1,"currency":"CNY","raw":{"a":[1]}}"#,
        r#"{"refundId":1,"result":"FAILED"}"#,
        r#"{"reference":"0192f0c1-0000-7000-8000-000000000002","refundId":1,"result":"SUCCESS","gatewayTxnId":"r-1"}"#,
    ])
}

pub(crate) fn cursor() -> Vec<Vec<u8>> {
    owned(&["9007199254740991", "cursor=17&limit=1&status=FAILED&from=2026-01-31T08:00:00Z", "1"])
}

pub(crate) fn headers() -> Vec<Vec<u8>> {
    owned(&[
        "x-trace-id: trace-1\naccept-language: zh-CN,zh;q=0.9,en;q=0.8\nx-idempotency-key: k1\n",
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\nidempotency-key: k2\n",
        "x-forwarded-for: 198.51.100.1, [2001:db8::7]:4711, 10.9.9.9\ncontent-type: application/json; charset=utf-8\n",
        "forwarded: for=\"[2001:db8::7]:4711\";proto=https;by=10.0.0.1, for=192.0.2.7\norigin: https://a.example\n",
        "authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI3In0.c2ln\ncontent-length: 2\nhost: a.example\n",
        "webhook-id: msg_1\nwebhook-timestamp: 1769846400\nwebhook-signature: v1,c2lnbmF0dXJl v1a,c2ln\n",
    ])
}

/// Every operation with all its query parameters.
pub(crate) fn target() -> Vec<Vec<u8>> {
    let calls = operations().into_iter().map(|(method, path, operation)| {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let queried = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let queried: Vec<String> = queried
            .filter_map(|parameter| parameter["name"].as_str())
            .map(|name| format!("{name}={}", value_of(name)))
            .collect();
        format!("{} {path}?{}", method.to_uppercase(), queried.join("&")).into_bytes()
    });
    calls.collect()
}

/// For every POST operation, the example of the document and a body with all fields.
pub(crate) fn body() -> Vec<Vec<u8>> {
    let document = serde_json::to_value(marketplace_http::openapi()).unwrap();
    let posted = operations().into_iter().filter(|(method, ..)| method == "post");
    let bodies = posted.flat_map(|(_, path, operation)| {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let name = schema.pointer("/$ref").and_then(Value::as_str).unwrap_or_default();
        let schema = document.pointer(name.trim_start_matches('#')).cloned().unwrap_or_default();
        let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let example = fields(&schema["example"]);
        let mut all: Map<String, Value> =
            fields(&schema["properties"]).into_iter().map(|(name, _)| (name, Value::Null)).collect();
        all.extend(example.clone());
        [json!(example), json!(all)].map(|body| format!("{path}\n{body}").into_bytes())
    });
    bodies.collect()
}

/// Method, path and definition of every operation, with ids in the path.
fn operations() -> Vec<(String, String, Value)> {
    let document = serde_json::to_value(marketplace_http::openapi()).unwrap();
    let paths = document["paths"].as_object().cloned().unwrap_or_default();
    let calls =
        paths.into_iter().filter(|(path, _)| path.starts_with("/api/")).flat_map(|(path, methods)| {
            let ids = path.split('/').map(|part| match part.strip_prefix('{') {
                Some(name) => value_of(name.trim_end_matches('}')),
                None => part,
            });
            let path = ids.collect::<Vec<_>>().join("/");
            let methods = methods.as_object().cloned().unwrap_or_default();
            methods.into_iter().map(move |(method, operation)| (method, path.clone(), operation))
        });
    calls.collect()
}

/// A valid value for a parameter of this name.
fn value_of(name: &str) -> &'static str {
    match name {
        "eventId" => "0192f0c1-0000-7000-8000-000000000001",
        "aggregateType" => "Order",
        "eventType" => "ORDER_PAID",
        "status" => "FAILED",
        "state" => "OPEN",
        "as" => "seller",
        "from" | "to" => "2026-01-31T07:00:00Z",
        "queue" => "inventory.update.queue",
        "consumer" => "inventory",
        "repair" => "false",
        _ => "1",
    }
}
