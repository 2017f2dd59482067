//! Requests and their responses.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use futures_util::{StreamExt, stream};
use handover_egress::{EgressClient, Networks, Resolved, Resolver, UrlRules};
use handover_outbox::ports::{WebhookResponse, WebhookTransport};
use handover_webhooks::{HttpTransport, SecretKey, SecretKeys, VerifyingKey, verify};
use hyper::HeaderMap;
use tokio::net::TcpListener;

use crate::receiver::{
    AUTHORITY, Answer, BODY, KEY, Received, Receiver, endpoint, headers, request, transport,
};

/// The versions of the signatures, in their order.
fn versions(headers: &HeaderMap) -> Vec<&str> {
    let signatures = headers["webhook-signature"].to_str().unwrap().split(' ');
    signatures.map(|signature| signature.split_once(',').unwrap().0).collect()
}

fn is_signed_with(request: &Received, key: &str) -> bool {
    let key: VerifyingKey = key.parse().unwrap();
    verify(&request.headers, &request.body, &[key], Utc::now()).is_ok()
}

#[tokio::test]
async fn request_has_these_headers_and_no_others() {
    let receiver = Receiver::start(Answer::status(200)).await;
    let transport = transport();
    let (mut endpoint, secret) = endpoint(&transport, &receiver.url());
    let pairs = headers(&[("Authorization", "Bearer t-1"), ("x-account", "7")]);
    endpoint.headers = Some(transport.seal_headers(endpoint.id, &pairs).unwrap());
    let mut sent = request(&endpoint);
    transport.send(&sent).await.unwrap();
    sent.is_redelivery = true;
    transport.send(&sent).await.unwrap();

    let [first, redelivery] = receiver.received().try_into().ok().unwrap();
    assert_eq!(first.body, BODY);
    let mut names: Vec<&str> = first.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "authorization",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "webhook-id",
            "webhook-signature",
            "webhook-timestamp",
            "x-account",
        ]
    );
    let value = |name: &str| first.headers[name].to_str().unwrap();
    assert_eq!(value("authorization"), "Bearer t-1");
    assert_eq!(value("content-type"), "application/json");
    assert_eq!(value("user-agent"), concat!("handover/", env!("CARGO_PKG_VERSION")));
    assert_eq!(value("webhook-id"), sent.message_id);
    assert_eq!(value("webhook-timestamp"), sent.at.timestamp().to_string());
    assert_eq!(versions(&first.headers), ["v1"]);
    assert!(is_signed_with(&first, &secret));
    assert_eq!(redelivery.headers["handover-redelivery"], "true");
    assert_eq!(redelivery.headers["webhook-id"], sent.message_id);
}

#[tokio::test]
async fn every_valid_secret_signs_and_an_expired_one_does_not() {
    let receiver = Receiver::start(Answer::status(200)).await;
    let transport = transport();
    let (mut endpoint, current) = endpoint(&transport, &receiver.url());
    let at = Utc::now();
    let valid_until = [at + TimeDelta::seconds(1), at, at - TimeDelta::hours(1)];
    let retired = valid_until.map(|until| {
        let mut new = transport.new_secret(endpoint.id).unwrap();
        new.stored.valid_until = Some(until);
        endpoint.secrets.push(new.stored);
        new.shown
    });
    for signs_asymmetrically in [false, true] {
        endpoint.signs_asymmetrically = signs_asymmetrically;
        let mut sent = request(&endpoint);
        sent.at = at;
        transport.send(&sent).await.unwrap();
    }
    let [symmetric, both] = receiver.received().try_into().ok().unwrap();
    assert_eq!(versions(&symmetric.headers), ["v1", "v1"]);
    assert_eq!(versions(&both.headers), ["v1", "v1a", "v1", "v1a"]);
    for request in [&symmetric, &both] {
        assert!(is_signed_with(request, &current));
        assert_eq!(retired.each_ref().map(|secret| is_signed_with(request, secret)), [true, false, false]);
    }
    let public = |index: usize| endpoint.secrets[index].public_key.as_str();
    assert!(!is_signed_with(&symmetric, public(0)));
    assert_eq!([0, 1, 2, 3].map(|index| is_signed_with(&both, public(index))), [true, true, false, false]);
}

#[tokio::test]
async fn every_status_is_a_response_and_redirects_are_not_followed() {
    let transport = transport();
    let moved = Receiver::start(Answer::status(200)).await;
    let retry: &[(&str, &str)] = &[("retry-after", "120")];
    let redirect: &[(&str, &str)] = &[("location", "http://127.0.0.1:1/")];
    for (status, headers) in [(204, &[][..]), (302, redirect), (410, &[]), (429, retry), (503, retry)] {
        let body = if status == 204 { String::new() } else { "why".to_owned() };
        let receiver = Receiver::start(Answer::Response { status, headers, body: body.clone() }).await;
        let (endpoint, _) = endpoint(&transport, &receiver.url());
        let retry_after = headers.iter().find(|(name, _)| *name == "retry-after").map(|_| "120".to_owned());
        let expected = WebhookResponse { status, retry_after, body: body.into() };
        assert_eq!(transport.send(&request(&endpoint)).await, Ok(expected));
        assert_eq!(receiver.received().len(), 1);
    }
    assert!(moved.received().is_empty());
}

#[tokio::test]
async fn long_response_is_cut() {
    let body = "x".repeat(1_000_000);
    let receiver = Receiver::start(Answer::Response { status: 500, headers: &[], body }).await;
    let transport = transport();
    let (endpoint, _) = endpoint(&transport, &receiver.url());
    let response = transport.send(&request(&endpoint)).await.unwrap();
    assert_eq!((response.status, response.body.len()), (500, 16 * 1024));
}

#[tokio::test]
async fn returned_request_is_stored_without_the_values_of_its_static_headers() {
    let body = r#"{"authorization":"Bearer canary-1","x-key":"canary-2 ","x-id":"17","n":17}"#;
    let receiver = Receiver::start(Answer::Response { status: 500, headers: &[], body: body.into() }).await;
    let transport = transport();
    let (mut endpoint, _) = endpoint(&transport, &receiver.url());
    let headers = [("authorization", "Bearer canary-1"), ("x-key", "canary-2"), ("x-id", "17")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    endpoint.headers = Some(transport.seal_headers(endpoint.id, &headers.into()).unwrap());
    let response = transport.send(&request(&endpoint)).await.unwrap();
    let expected = r#"{"authorization":"*** ***","x-key":"*** ","x-id":"17","n":17}"#;
    assert_eq!(String::from_utf8(response.body).unwrap(), expected);
}

#[tokio::test]
async fn errors_name_their_cause() {
    let transport = transport();
    let silent = Receiver::start(Answer::Nothing).await;
    let (mut endpoint, _) = endpoint(&transport, &silent.url());
    let mut sent = request(&endpoint);
    sent.deadline = Duration::from_millis(200);
    let error = transport.send(&sent).await.unwrap_err();
    assert_eq!(error.to_string(), "no complete response within 200ms");

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let encrypted = format!("https://{}/", silent.address);
    for (url, expected) in [
        (format!("http://{closed}/"), "connection: cannot connect to 127.0.0.1: "),
        (encrypted, "TLS: "),
        ("https://10.0.0.1/".to_owned(), "refused: 10.0.0.1 is not a public address"),
        ("https://user:p@example.com/".to_owned(), "refused: a URL must not contain a user name"),
    ] {
        endpoint.url = url;
        let error = transport.send(&request(&endpoint)).await.unwrap_err().to_string();
        assert!(error.starts_with(expected), "{}: {error}", endpoint.url);
        assert_eq!(transport.check_url(&endpoint.url).is_err(), expected.starts_with("refused"));
    }
}

#[tokio::test]
async fn event_id_with_a_dot_is_sent_as_its_uuid() {
    let receiver = Receiver::start(Answer::status(200)).await;
    let transport = transport();
    let (endpoint, secret) = endpoint(&transport, &receiver.url());
    let mut sent = request(&endpoint);
    sent.message_id = "inserted.by.hand".to_owned();
    transport.send(&sent).await.unwrap();
    transport.send(&sent).await.unwrap();
    let [first, second] = receiver.received().try_into().ok().unwrap();
    let id = first.headers["webhook-id"].to_str().unwrap();
    assert_eq!(id.parse::<uuid::Uuid>().unwrap().get_version_num(), 5);
    assert_eq!(second.headers["webhook-id"], id, "the id is the same at every attempt");
    assert!(is_signed_with(&first, &secret));
}

#[tokio::test]
async fn message_id_that_is_no_header_value_is_not_sent() {
    let receiver = Receiver::start(Answer::status(200)).await;
    let transport = transport();
    let (endpoint, _) = endpoint(&transport, &receiver.url());
    let mut sent = request(&endpoint);
    sent.message_id = "a\r\nhost: b".to_owned();
    assert!(transport.send(&sent).await.is_err());
    assert!(receiver.received().is_empty());
}

/// Every name has the address 127.0.0.1.
struct Loopback;

impl Resolver for Loopback {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolved<'a> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

#[tokio::test]
async fn open_and_closed_port_of_a_refused_address_have_the_same_error() {
    let receiver = Receiver::start(Answer::status(200)).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    // The port of a name is refused only at the connection if the name may have an address in a named network.
    let networks = Networks::public_and(vec!["10.0.0.0/8".parse().unwrap()]);
    let client = EgressClient::new(networks.clone(), Arc::new(Loopback), AUTHORITY).unwrap();
    let keys = SecretKeys::new(SecretKey::new(KEY).unwrap(), None);
    let transport = HttpTransport::new(client, UrlRules { networks, own_hosts: Vec::new() }, keys);
    for port in [receiver.address.port(), closed.port()] {
        let (endpoint, _) = endpoint(&transport, &format!("https://receiver.example:{port}/"));
        let error = transport.send(&request(&endpoint)).await.unwrap_err();
        assert_eq!(error.to_string(), "refused: receiver.example has an address that is not public");
    }
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_requests_make_at_most_ten_connections() {
    for in_flight in [1, 2, 4] {
        let receiver = Receiver::start(Answer::status(200)).await;
        let transport = transport();
        let (endpoint, _) = endpoint(&transport, &receiver.url());
        let sent = stream::iter(0..1000).map(|_| async { transport.send(&request(&endpoint)).await });
        let responses: Vec<_> = sent.buffer_unordered(in_flight).collect().await;
        assert!(responses.iter().all(|response| response.as_ref().is_ok_and(|it| it.status == 200)));
        assert_eq!(receiver.received().len(), 1000);
        let connections = receiver.connections.load(Ordering::SeqCst);
        assert!(connections <= 10, "{connections} connections for {in_flight} requests in flight");
    }
}
