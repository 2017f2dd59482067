//! A gateway behind HTTP, on real sockets and real time, with short limits.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use handover_events::Trace;
use handover_memory::{ManualClock, VirtualClock};
use handover_outbox::ports::Clock;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};
use marketplace_domain::{Currency, Money};
use marketplace_gateway::{Endpoint, HttpGateway, Unusable};
use serde_json::json;
use standardwebhooks::Webhook;
use tokio::time::timeout;

use super::server::{Asked, Reply, Server};
use crate::{PATIENCE, eventually};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8G";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// Long enough for an answer that comes at once.
const ENOUGH: Duration = PATIENCE;

fn request() -> RefundRequest {
    RefundRequest {
        refund: 7.try_into().unwrap(),
        payment: 5.try_into().unwrap(),
        transaction_id: Some("txn-1".to_owned()),
        order: 3.try_into().unwrap(),
        amount: Money::from_minor(8_850).unwrap(),
        currency: Currency::CNY,
        trace: Trace { trace_id: "refund-7".to_owned(), traceparent: Some(TRACEPARENT.to_owned()) },
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(chrono::Utc::now()))
}

fn gateway(url: &str, within: Duration) -> HttpGateway {
    HttpGateway::new(&Endpoint::parse(url).unwrap(), SECRET, within, clock()).unwrap()
}

async fn ask(url: &str, within: Duration) -> Result<(), GatewayError> {
    let gateway = gateway(url, within);
    timeout(PATIENCE * 2, gateway.refund(&request())).await.expect("it is bounded")
}

/// What it said, if it was away.
#[track_caller]
fn away(answer: Result<(), GatewayError>) -> String {
    match answer.unwrap_err() {
        GatewayError::Unavailable(why) => why,
        refused @ GatewayError::Refused(_) => panic!("{refused}"),
    }
}

/// What it said, if it refused.
#[track_caller]
fn refused(answer: Result<(), GatewayError>) -> String {
    match answer.unwrap_err() {
        GatewayError::Refused(why) => why,
        away @ GatewayError::Unavailable(_) => panic!("{away}"),
    }
}

fn verified(asked: &Asked) {
    let headers: HeaderMap = asked
        .headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
        .collect();
    Webhook::new(SECRET).unwrap().verify(&asked.body, &headers).unwrap();
}

#[tokio::test]
async fn a_refund_is_asked_for_with_all_its_facts_its_key_its_trace_and_a_signature() {
    let server = Server::start(&[Reply::Says(202, r#"{"status":"taken"}"#)]).await;
    ask(&server.url(), ENOUGH).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].line, "POST /v1/refunds HTTP/1.1");
    assert_eq!(
        asked[0].json(),
        json!({"refundId": 7, "paymentId": 5, "transactionId": "txn-1", "orderId": 3,
            "amount": serde_json::from_str::<serde_json::Value>("88.50").unwrap(), "currency": "CNY"})
    );
    assert!(String::from_utf8_lossy(&asked[0].body).contains(r#""amount":88.50,"#), "no digit is lost");
    for (name, value) in [
        ("idempotency-key", "refund:7"),
        ("webhook-id", "refund:7"),
        ("x-trace-id", "refund-7"),
        ("traceparent", TRACEPARENT),
        ("content-type", "application/json"),
    ] {
        assert_eq!(asked[0].headers[name], value);
    }
    verified(&asked[0]);
}

#[tokio::test]
async fn a_slash_at_the_end_of_the_url_is_not_doubled() {
    let server = Server::start(&[Reply::Says(202, "")]).await;
    ask(&format!("{}/", server.url()), ENOUGH).await.unwrap();
    assert_eq!(server.asked()[0].line, "POST /v1/refunds HTTP/1.1");
}

#[tokio::test]
async fn the_reason_of_a_refusal_is_told_as_one_short_line() {
    let reason = async |said: &[u8]| {
        let server = Server::start(&[Reply::SaysBytes(422, said.to_vec())]).await;
        let why = refused(ask(&server.url(), ENOUGH).await);
        why.strip_prefix("422 Unprocessable Entity").unwrap().to_owned()
    };
    assert_eq!(reason(b"  no such\r\n\x1b[2J\tpayment \xff").await, ": no such [2J payment \u{fffd}");
    let long = reason("界".repeat(999).as_bytes()).await;
    assert_eq!(long.strip_prefix(": ").unwrap(), "界".repeat(200));
    assert_eq!(reason(b"\n").await, "");
}

#[tokio::test]
async fn a_body_that_was_changed_on_its_way_does_not_verify() {
    let server = Server::start(&[Reply::Says(200, "")]).await;
    ask(&server.url(), ENOUGH).await.unwrap();
    let mut asked = server.asked().remove(0);
    asked.body[1] ^= 1;
    assert!(std::panic::catch_unwind(|| verified(&asked)).is_err());
}

#[tokio::test]
async fn each_answer_means_taken_away_or_refused() {
    for status in [200, 201, 202, 204] {
        let server = Server::start(&[Reply::Says(status, "")]).await;
        ask(&server.url(), ENOUGH).await.unwrap();
    }
    for status in [408, 425, 429] {
        let server = Server::start(&[Reply::Says(status, "later")]).await;
        let why = away(ask(&server.url(), ENOUGH).await);
        assert!(why.starts_with(&status.to_string()) && why.ends_with("later"), "{why}");
        assert_eq!(server.asked().len(), 1, "{status}: it said later, not at once");
    }
    for status in [400, 401, 403, 404, 409, 410, 422] {
        let server =
            Server::start(&[Reply::Says(status, "{\"why\":\r\n\"no such\u{1b}[2J payment\"}")]).await;
        let why = refused(ask(&server.url(), ENOUGH).await);
        assert!(why.starts_with(&status.to_string()), "{why}");
        assert!(why.ends_with(r#"{"why": "no such [2J payment"}"#), "{why}");
        assert_eq!(server.asked().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn an_error_of_the_gateway_is_tried_three_times_under_one_key() {
    for status in [500, 502, 503, 504] {
        let server = Server::start(&[Reply::Says(status, "")]).await;
        assert!(away(ask(&server.url(), ENOUGH).await).starts_with(&status.to_string()));
        let asked = server.asked();
        assert_eq!(asked.len(), 3, "{status}");
        let keys: BTreeSet<&str> = asked.iter().map(|it| it.headers["idempotency-key"].as_str()).collect();
        assert_eq!(keys, BTreeSet::from(["refund:7"]));
        asked.iter().for_each(verified);
    }
}

#[tokio::test]
async fn a_gateway_that_comes_back_within_three_tries_takes_the_request() {
    let server = Server::start(&[Reply::HangsUp, Reply::Says(503, ""), Reply::Says(202, "")]).await;
    ask(&server.url(), ENOUGH).await.unwrap();
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn a_gateway_that_cannot_be_reached_or_hangs_up_is_away() {
    let server = Server::start(&[Reply::HangsUp]).await;
    away(ask(&server.url(), ENOUGH).await);
    assert_eq!(server.asked().len(), 3);
    let gone = server.url();
    drop(server);
    let why = away(ask(&gone, ENOUGH).await);
    assert!(why.to_lowercase().contains("connect"), "{why}");
}

#[tokio::test]
async fn a_gateway_without_tls_is_not_asked_in_plain_text_instead() {
    let server = Server::start(&[Reply::Says(200, "")]).await;
    let url = format!("https://{}", server.address);
    away(ask(&url, Duration::from_millis(500)).await);
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn a_redirect_is_refused_and_not_followed() {
    let stranger = Server::start(&[Reply::Says(200, "")]).await;
    for status in [301, 302, 303, 307, 308] {
        let place = format!("{}/refunds", stranger.url());
        let server = Server::start(&[Reply::SendsTo(status, place)]).await;
        let why = refused(ask(&server.url(), ENOUGH).await);
        assert!(why.contains("a redirect is not followed"), "{why}");
        assert_eq!(server.asked().len(), 1);
    }
    assert_eq!(stranger.asked().len(), 0);
}

#[tokio::test]
async fn a_gateway_that_does_not_answer_is_given_up_and_not_pressed() {
    let server = Server::start(&[Reply::Waits]).await;
    let clock = ManualClock::new(chrono::DateTime::UNIX_EPOCH);
    let endpoint = Endpoint::parse(&server.url()).unwrap();
    let gateway = HttpGateway::new(&endpoint, SECRET, ENOUGH, Arc::new(clock.clone())).unwrap();
    let given_up = async {
        eventually(async || server.asked().len() == 1).await;
        clock.advance(ENOUGH);
    };
    let request = request();
    let (answer, ()) =
        timeout(PATIENCE, async { tokio::join!(gateway.refund(&request), given_up) }).await.unwrap();
    let why = away(answer);
    assert!(why.contains("no answer within 60s"), "{why}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_body_without_end_is_cut_and_the_status_counts() {
    let flood = Server::start(&[Reply::Floods(422)]).await;
    let why = refused(ask(&flood.url(), ENOUGH).await);
    assert!(why.starts_with("422") && why.len() < 300, "{} bytes", why.len());
    let taken = Server::start(&[Reply::Floods(200)]).await;
    ask(&taken.url(), ENOUGH).await.unwrap();
    let slow = Server::start(&[Reply::Trickles(403, "not yours")]).await;
    let why = refused(ask(&slow.url(), ENOUGH).await);
    assert!(why.ends_with("not yours"), "what has come of a reason is told: {why}");
}

#[tokio::test]
async fn the_secret_is_told_to_nobody() {
    let server = Server::start(&[Reply::Says(400, "bad signature")]).await;
    let gateway = gateway(&server.url(), ENOUGH);
    let error = gateway.refund(&request()).await.unwrap_err();
    let asked = format!("{:?}", server.asked());
    for told in [format!("{gateway:?}"), format!("{error} {error:?}"), asked] {
        assert!(!told.contains(SECRET) && !told.contains(&SECRET["whsec_".len()..]), "{told}");
    }
}

#[test]
fn without_a_signing_secret_there_is_no_gateway() {
    let endpoint = Endpoint::parse("http://127.0.0.1:1").unwrap();
    for secret in ["", "hush", "whsec_", "whsec_c2hvcnQ=", &"ab".repeat(32)] {
        let error = HttpGateway::new(&endpoint, secret, ENOUGH, clock()).unwrap_err();
        assert!(matches!(error, Unusable::Secret), "{error}");
        assert!(secret.len() < 7 || !error.to_string().contains(secret));
    }
}
