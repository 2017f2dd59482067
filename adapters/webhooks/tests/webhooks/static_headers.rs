//! Static headers that endpoints may have.

use handover_outbox::ports::WebhookTransport;

use crate::receiver::transport;

#[test]
fn ordinary_headers_are_accepted() {
    let transport = transport();
    for (name, value) in [
        ("Authorization", "Basic dXNlcjpwYXNz"),
        ("x-api-key", "k"),
        ("X-Tenant", "a b\tc ~"),
        ("accept", "application/json"),
        ("x-long", &"v".repeat(2048)),
    ] {
        assert_eq!(transport.check_header(name, value), Ok(()), "{name}");
    }
}

#[test]
fn reserved_headers_are_refused_in_every_spelling() {
    let transport = transport();
    for name in [
        "webhook-id",
        "Webhook-Signature",
        "WEBHOOK-anything",
        "handover-redelivery",
        "Host",
        "Content-Type",
        "content-length",
        "Content-Encoding",
        "Connection",
        "keep-alive",
        "Transfer-Encoding",
        "TE",
        "Trailer",
        "Upgrade",
        "http2-settings",
        "Expect",
        "proxy-authorization",
        "Proxy-Connection",
        "Cookie",
        "User-Agent",
        "Accept-Encoding",
        "X-Forwarded-For",
        "forwarded",
        "x-real-ip",
        "Metadata",
        "Metadata-Flavor",
        "X-aws-ec2-metadata-token",
        "sec-fetch-site",
        "date",
        "origin",
    ] {
        let error = transport.check_header(name, "value").unwrap_err();
        assert_eq!(error, format!("the header {} is reserved", name.to_ascii_lowercase()));
    }
}

#[test]
fn invalid_names_and_values_are_refused_without_the_value() {
    let transport = transport();
    for name in ["", " x", "x y", "x:y", "x\r\nhost", "ü", ":path", &"n".repeat(65)] {
        assert!(transport.check_header(name, "value").is_err(), "{name:?}");
    }
    let long = "canary".repeat(400);
    for value in
        ["", " canary", "canary ", "canary\r\nhost: b", "canary\0", "canary\u{7f}", "canary é", &long]
    {
        let error = transport.check_header("x-a", value).unwrap_err();
        assert!(error.contains("x-a") && !error.contains("canary"), "{value:?}: {error}");
    }
}
