//! The HTTP gateway on real sockets and in real time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use handover_events::Trace;
use handover_memory::{ManualClock, VirtualClock};
use handover_outbox::ports::Clock;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};
use marketplace_domain::{Currency, InvoiceId, Money, OrderId};
use marketplace_gateway::{Endpoint, GatewaySetupError, HttpGateway};
use serde_json::json;
use standardwebhooks::Webhook;
use tokio::time::timeout;

use super::server::{ReceivedRequest, Reply, Server};
use crate::{PATIENCE, eventually};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8G";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// Time limit that an immediate response does not exceed.
const LONG_TIMEOUT: Duration = PATIENCE;

const REFERENCE: &str = "0192f0c1-0000-7000-8000-000000000002";
const PAYMENT_REFERENCE: &str = "0192f0c1-0000-7000-8000-000000000001";

fn request() -> RefundRequest {
    RefundRequest {
        refund: 7.try_into().unwrap(),
        reference: Some(REFERENCE.parse().unwrap()),
        key: REFERENCE.to_owned(),
        payment_reference: Some(PAYMENT_REFERENCE.parse().unwrap()),
        payment: 5.try_into().unwrap(),
        transaction_id: Some("txn-1".to_owned()),
        of: OrderId::try_from(3).unwrap().into(),
        amount: Money::from_minor(8_850).unwrap(),
        currency: Currency::CNY,
        trace: Trace { trace_id: "refund-7".to_owned(), traceparent: Some(TRACEPARENT.to_owned()) },
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(chrono::Utc::now()))
}

fn gateway(url: &str, limit: Duration) -> HttpGateway {
    HttpGateway::new(&Endpoint::parse(url).unwrap(), SECRET, limit, clock()).unwrap()
}

async fn refund(url: &str, limit: Duration) -> Result<(), GatewayError> {
    let gateway = gateway(url, limit);
    timeout(PATIENCE * 2, gateway.refund(&request())).await.expect("the call must end within its time limit")
}

/// The reason of an `Unavailable` error.
#[track_caller]
fn unavailable(outcome: Result<(), GatewayError>) -> String {
    match outcome.unwrap_err() {
        GatewayError::Unavailable(why) => why,
        error @ GatewayError::Refused(_) => panic!("{error}"),
    }
}

/// The reason of a `Refused` error.
#[track_caller]
fn refused(outcome: Result<(), GatewayError>) -> String {
    match outcome.unwrap_err() {
        GatewayError::Refused(why) => why,
        error @ GatewayError::Unavailable(_) => panic!("{error}"),
    }
}

fn verify(request: &ReceivedRequest) {
    assert!(is_signed_with(SECRET, request));
}

fn is_signed_with(secret: &str, request: &ReceivedRequest) -> bool {
    let headers: HeaderMap = request
        .headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect();
    Webhook::new(secret).unwrap().verify(&request.body, &headers).is_ok()
}

#[tokio::test]
async fn requests_are_signed_with_the_secret_that_replaced_the_first() {
    const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let server = Server::start(&[Reply::Text(202, ""), Reply::Text(202, "")]).await;
    let gateway = gateway(&server.url(), LONG_TIMEOUT);
    let signer = gateway.signer();
    assert!(!signer.replace("hush"));
    gateway.refund(&request()).await.unwrap();
    assert!(signer.replace(NEW));
    gateway.refund(&request()).await.unwrap();
    let requests = server.requests();
    assert!(is_signed_with(SECRET, &requests[0]) && is_signed_with(NEW, &requests[1]));
    assert!(!format!("{signer:?}").contains(&NEW["whsec_".len()..]));
}

#[tokio::test]
async fn refund_request_has_body_idempotency_key_trace_and_signature() {
    let server = Server::start(&[Reply::Text(202, r#"{"status":"taken"}"#)]).await;
    refund(&server.url(), LONG_TIMEOUT).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].line, "POST /v1/refunds HTTP/1.1");
    assert_eq!(
        requests[0].json(),
        json!({"refundId": 7, "reference": REFERENCE, "paymentId": 5, "paymentReference": PAYMENT_REFERENCE,
            "transactionId": "txn-1", "orderId": 3,
            "amount": serde_json::from_str::<serde_json::Value>("88.50").unwrap(), "currency": "CNY"})
    );
    assert!(
        String::from_utf8_lossy(&requests[0].body).contains(r#""amount":88.50,"#),
        "the amount must keep all digits"
    );
    for (name, value) in [
        ("idempotency-key", REFERENCE),
        ("webhook-id", REFERENCE),
        ("x-trace-id", "refund-7"),
        ("traceparent", TRACEPARENT),
        ("content-type", "application/json"),
    ] {
        assert_eq!(requests[0].headers[name], value);
    }
    verify(&requests[0]);
}

#[tokio::test]
async fn refund_request_of_an_invoice_names_the_invoice() {
    let server = Server::start(&[Reply::Text(202, "")]).await;
    let of = InvoiceId::try_from(4).unwrap().into();
    gateway(&server.url(), LONG_TIMEOUT).refund(&RefundRequest { of, ..request() }).await.unwrap();
    let body = server.requests()[0].json();
    assert_eq!((&body["invoiceId"], body.get("orderId")), (&json!(4), None));
}

/// Gateways refuse a repeated idempotency key with another body.
#[tokio::test]
async fn refund_of_an_earlier_version_keeps_its_key_and_its_body() {
    let server = Server::start(&[Reply::Text(202, "")]).await;
    for reference in [None, Some(REFERENCE.parse().unwrap())] {
        let request = RefundRequest { reference, key: "refund:7".to_owned(), ..request() };
        gateway(&server.url(), LONG_TIMEOUT).refund(&request).await.unwrap();
    }
    let body =
        r#"{"refundId":7,"paymentId":5,"transactionId":"txn-1","orderId":3,"amount":88.50,"currency":"CNY"}"#;
    for request in server.requests() {
        assert_eq!(String::from_utf8_lossy(&request.body), body);
        for name in ["idempotency-key", "webhook-id"] {
            assert_eq!(request.headers[name], "refund:7");
        }
        verify(&request);
    }
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn trailing_slash_of_url_is_not_doubled() {
    let server = Server::start(&[Reply::Text(202, "")]).await;
    refund(&format!("{}/", server.url()), LONG_TIMEOUT).await.unwrap();
    assert_eq!(server.requests()[0].line, "POST /v1/refunds HTTP/1.1");
}

#[tokio::test]
async fn refusal_reason_is_one_short_line() {
    let reason = async |body: &[u8]| {
        let server = Server::start(&[Reply::Bytes(422, body.to_vec())]).await;
        let why = refused(refund(&server.url(), LONG_TIMEOUT).await);
        why.strip_prefix("422 Unprocessable Entity").unwrap().to_owned()
    };
    assert_eq!(reason(b"  no such\r\n\x1b[2J\tpayment \xff").await, ": no such [2J payment \u{fffd}");
    let long = reason("界".repeat(999).as_bytes()).await;
    assert_eq!(long.strip_prefix(": ").unwrap(), "界".repeat(200));
    assert_eq!(reason(b"\n").await, "");
}

#[tokio::test]
async fn signature_of_modified_body_is_invalid() {
    let server = Server::start(&[Reply::Text(200, "")]).await;
    refund(&server.url(), LONG_TIMEOUT).await.unwrap();
    let mut request = server.requests().remove(0);
    request.body[1] ^= 1;
    assert!(!is_signed_with(SECRET, &request));
}

#[tokio::test]
async fn status_code_decides_if_refund_is_accepted_unavailable_or_refused() {
    for status in [200, 201, 202, 204] {
        let server = Server::start(&[Reply::Text(status, "")]).await;
        refund(&server.url(), LONG_TIMEOUT).await.unwrap();
    }
    for status in [408, 425, 429] {
        let server = Server::start(&[Reply::Text(status, "later")]).await;
        let why = unavailable(refund(&server.url(), LONG_TIMEOUT).await);
        assert!(why.starts_with(&status.to_string()) && why.ends_with("later"), "{why}");
        assert_eq!(server.requests().len(), 1, "{status} must not be retried immediately");
    }
    for status in [400, 401, 403, 404, 409, 410, 422] {
        let server =
            Server::start(&[Reply::Text(status, "{\"why\":\r\n\"no such\u{1b}[2J payment\"}")]).await;
        let why = refused(refund(&server.url(), LONG_TIMEOUT).await);
        assert!(why.starts_with(&status.to_string()), "{why}");
        assert!(why.ends_with(r#"{"why": "no such [2J payment"}"#), "{why}");
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn server_error_is_retried_twice_with_same_idempotency_key() {
    for status in [500, 502, 503, 504] {
        let server = Server::start(&[Reply::Text(status, "")]).await;
        assert!(unavailable(refund(&server.url(), LONG_TIMEOUT).await).starts_with(&status.to_string()));
        let requests = server.requests();
        assert_eq!(requests.len(), 3, "{status}");
        let keys: BTreeSet<&str> = requests.iter().map(|it| it.headers["idempotency-key"].as_str()).collect();
        assert_eq!(keys, BTreeSet::from([REFERENCE]));
        requests.iter().for_each(verify);
    }
}

#[tokio::test]
async fn refund_succeeds_when_gateway_recovers_within_three_attempts() {
    let server = Server::start(&[Reply::Close, Reply::Text(503, ""), Reply::Text(202, "")]).await;
    refund(&server.url(), LONG_TIMEOUT).await.unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn gateway_is_unavailable_when_connection_fails_or_is_closed() {
    let server = Server::start(&[Reply::Close]).await;
    unavailable(refund(&server.url(), LONG_TIMEOUT).await);
    assert_eq!(server.requests().len(), 3);
    let stopped = server.url();
    drop(server);
    let why = unavailable(refund(&stopped, LONG_TIMEOUT).await);
    assert!(why.to_lowercase().contains("connect"), "{why}");
}

#[tokio::test]
async fn https_gateway_is_not_called_without_tls() {
    let server = Server::start(&[Reply::Text(200, "")]).await;
    let url = format!("https://{}", server.address);
    unavailable(refund(&url, Duration::from_millis(500)).await);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn redirect_is_refused_and_not_followed() {
    let other = Server::start(&[Reply::Text(200, "")]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("{}/refunds", other.url());
        let server = Server::start(&[Reply::Redirect(status, location)]).await;
        let why = refused(refund(&server.url(), LONG_TIMEOUT).await);
        assert!(why.contains("a redirect is not followed"), "{why}");
        assert_eq!(server.requests().len(), 1);
    }
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn request_times_out_and_is_not_retried_when_gateway_does_not_respond() {
    let server = Server::start(&[Reply::Silence]).await;
    let clock = ManualClock::new(chrono::DateTime::UNIX_EPOCH);
    let endpoint = Endpoint::parse(&server.url()).unwrap();
    let gateway = HttpGateway::new(&endpoint, SECRET, LONG_TIMEOUT, Arc::new(clock.clone())).unwrap();
    let time_out = async {
        eventually(async || server.requests().len() == 1).await;
        clock.advance(LONG_TIMEOUT);
    };
    let request = request();
    let (outcome, ()) =
        timeout(PATIENCE, async { tokio::join!(gateway.refund(&request), time_out) }).await.unwrap();
    let why = unavailable(outcome);
    assert!(why.contains("no answer within 60s"), "{why}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn endless_response_body_is_truncated_and_status_decides() {
    let flood = Server::start(&[Reply::EndlessBody(422)]).await;
    let why = refused(refund(&flood.url(), LONG_TIMEOUT).await);
    assert!(why.starts_with("422") && why.len() < 300, "{} bytes", why.len());
    let accepting = Server::start(&[Reply::EndlessBody(200)]).await;
    refund(&accepting.url(), LONG_TIMEOUT).await.unwrap();
    let slow = Server::start(&[Reply::PartialBody(403, "not yours")]).await;
    let why = refused(refund(&slow.url(), LONG_TIMEOUT).await);
    assert!(why.ends_with("not yours"), "the received part of the reason must be reported: {why}");
}

#[tokio::test]
async fn secret_is_not_shown_in_errors_and_requests() {
    let server = Server::start(&[Reply::Text(400, "bad signature")]).await;
    let gateway = gateway(&server.url(), LONG_TIMEOUT);
    let error = gateway.refund(&request()).await.unwrap_err();
    let requests = format!("{:?}", server.requests());
    for text in [format!("{gateway:?}"), format!("{error} {error:?}"), requests] {
        assert!(!text.contains(SECRET) && !text.contains(&SECRET["whsec_".len()..]), "{text}");
    }
}

#[test]
fn gateway_requires_valid_signing_secret() {
    let endpoint = Endpoint::parse("http://127.0.0.1:1").unwrap();
    for secret in ["", "hush", "whsec_", "whsec_c2hvcnQ=", &"ab".repeat(32)] {
        let error = HttpGateway::new(&endpoint, secret, LONG_TIMEOUT, clock()).unwrap_err();
        assert!(matches!(error, GatewaySetupError::Secret), "{error}");
        assert!(secret.len() < 7 || !error.to_string().contains(secret));
    }
}
