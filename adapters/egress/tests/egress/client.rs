//! Requests of the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handover_egress::{EgressClient, EgressError, EgressResponse, Networks, UrlRules};
use hyper::HeaderMap;
use hyper::body::Bytes;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::receiver::{AUTHORITY, Names, client, receiver};

const LONG: Duration = Duration::from_secs(60);
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone";

async fn post(client: &EgressClient, url: &str, deadline: Duration) -> Result<EgressResponse, EgressError> {
    let networks = Networks::public_and(vec!["127.0.0.0/8".parse().unwrap()]);
    let target = UrlRules { networks, own_hosts: Vec::new() }.check(url).unwrap();
    client.post(&target, HeaderMap::new(), Bytes::from_static(b"the end"), deadline).await
}

#[tokio::test]
async fn connection_is_used_again() {
    let receiver = receiver(OK, false).await;
    let names = Names::of("receiver.example", &[&["127.0.0.1"]]);
    let client = client(Arc::clone(&names));
    for _ in 0..100 {
        let url = format!("http://receiver.example:{}/hook", receiver.address.port());
        let response = post(&client, &url, LONG).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body.as_ref()), (200, &b"done"[..]));
    }
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 1);
    assert_eq!(names.asked.lock().unwrap().len(), 1);
}

/// The receiver closes each connection after its response, without the header `connection: close`, while the client uses it
/// for the next request.
#[tokio::test(flavor = "multi_thread")]
async fn request_is_repeated_only_if_the_connection_was_closed_before_it() {
    let (address, requests) = closing_receiver().await;
    let client = client(Names::of("receiver.example", &[&["127.0.0.1"]]));
    let mut errors = Vec::new();
    for _ in 0..500 {
        errors.extend(post(&client, &format!("http://{address}/"), LONG).await.err());
    }
    assert!(!errors.iter().any(|error| error.to_string().contains("Canceled")), "{errors:?}");
    assert!((500 - errors.len()..=500).contains(&requests.load(Ordering::SeqCst)), "{errors:?}");
}

/// The address of a server that answers the first request of a connection and closes it, and the number of requests.
async fn closing_receiver() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut request = Vec::new();
                while let Ok(1..) = stream.read_buf(&mut request).await {
                    if request.ends_with(b"the end") {
                        counted.fetch_add(1, Ordering::SeqCst);
                        stream.write_all(OK.as_bytes()).await.ok();
                        return;
                    }
                }
            });
        }
    });
    (address, requests)
}

#[tokio::test]
async fn host_with_one_refused_address_is_refused_whole() {
    let receiver = receiver(OK, false).await;
    let client = client(Names::of("receiver.example", &[&["127.0.0.1", "10.0.0.1"]]));
    let url = format!("http://receiver.example:{}/", receiver.address.port());
    let refused = post(&client, &url, LONG).await.unwrap_err();
    assert_eq!(refused, EgressError::Refused("10.0.0.1 is not a public address (private use)".to_owned()));
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn name_that_changes_to_a_private_address_is_refused_at_the_next_connection() {
    let closing = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let receiver = receiver(closing, false).await;
    let client = client(Names::of("receiver.example", &[&["127.0.0.1"], &["192.168.1.1"]]));
    let url = format!("http://receiver.example:{}/", receiver.address.port());
    assert!(post(&client, &url, LONG).await.is_ok());
    let refused = post(&client, &url, LONG).await.unwrap_err();
    assert_eq!(refused, EgressError::Refused("192.168.1.1 is not a public address (private use)".to_owned()));
}

#[tokio::test]
async fn plain_http_and_other_ports_need_a_named_network() {
    let client = client(Names::of("receiver.example", &[&["8.8.8.8"]]));
    let refused = post(&client, "http://receiver.example/", LONG).await.unwrap_err();
    assert!(
        matches!(&refused, EgressError::Refused(why) if why.starts_with("http is only allowed")),
        "{refused}"
    );
    let refused = post(&client, "https://receiver.example:5432/", LONG).await.unwrap_err();
    assert!(matches!(&refused, EgressError::Refused(why) if why.starts_with("port 5432")), "{refused}");
}

#[tokio::test]
async fn redirect_is_returned_and_not_followed() {
    let redirect = "HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n";
    let receiver = receiver(redirect, false).await;
    let client = client(Names::of("receiver.example", &[&["127.0.0.1"]]));
    let response = post(&client, &format!("http://{}/", receiver.address), LONG).await.unwrap();
    assert_eq!(response.status.as_u16(), 302);
    assert_eq!(response.headers["location"], "http://10.0.0.1/");
}

#[tokio::test]
async fn long_body_is_cut_and_endless_response_ends_at_the_deadline() {
    let long = format!("HTTP/1.1 500 Error\r\ncontent-length: 100000\r\n\r\n{}", "x".repeat(100_000));
    let receiver = receiver(&long, false).await;
    let client = client(Names::of("receiver.example", &[&["127.0.0.1"]]));
    let response = post(&client, &format!("http://{}/", receiver.address), LONG).await.unwrap();
    assert_eq!(
        (response.status.as_u16(), response.body.len(), response.is_truncated),
        (500, 16 * 1024, true)
    );

    let endless = crate::receiver::receiver("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", false).await;
    let deadline = Duration::from_millis(200);
    let error = post(&client, &format!("http://{}/", endless.address), deadline).await.unwrap_err();
    assert_eq!(error, EgressError::Timeout(deadline));
}

#[tokio::test]
async fn certificate_is_verified_and_its_errors_are_named() {
    let receiver = receiver(OK, true).await;
    let names = Names::of("receiver.example", &[&["127.0.0.1"]]);
    let url = format!("https://receiver.example:{}/", receiver.address.port());
    assert!(post(&client(Arc::clone(&names)), &url, LONG).await.is_ok());

    let other = Names::of("other.example", &[&["127.0.0.1"]]);
    let url = format!("https://other.example:{}/", receiver.address.port());
    let error = post(&client(other), &url, LONG).await.unwrap_err();
    assert!(matches!(&error, EgressError::Tls(why) if why.contains("certificate")), "{error}");

    let plain = plain_text().await;
    let error = post(&client(names), &format!("https://receiver.example:{}/", plain.port()), LONG).await;
    assert!(matches!(error, Err(EgressError::Tls(_))), "{error:?}");
}

/// The address of a server that does not use TLS.
async fn plain_text() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example ready\r\n").await.unwrap();
    });
    address
}

#[tokio::test]
async fn unknown_name_and_closed_port_are_named() {
    let client = client(Names::of("receiver.example", &[&["127.0.0.1"]]));
    let error = post(&client, "https://unknown.example/", LONG).await.unwrap_err();
    assert_eq!(error, EgressError::Dns("cannot resolve unknown.example: no such name".to_owned()));
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = post(&client, &format!("http://{closed}/"), LONG).await.unwrap_err();
    assert!(matches!(&error, EgressError::Connect(why) if why.contains("refused")), "{error}");
}

#[test]
fn invalid_authority_is_an_error() {
    let names = Names::of("receiver.example", &[]);
    let wrong = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(EgressClient::new(Networks::default(), names, wrong).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The host that the rules have checked is the host that the client resolves; an address is never resolved.
    #[test]
    fn client_resolves_the_host_that_was_checked(host in "[a-zA-Z0-9.%\\[\\]:@。１-９-]{1,24}", tail in "[/?#\\\\@:a-z0-9.]{0,12}") {
        let url = format!("https://{host}{tail}");
        if let Ok(target) = UrlRules::default().check(&url) {
            let checked = url::Url::parse(&url).unwrap();
            // A public address would be connected to.
            prop_assume!(matches!(checked.host(), Some(url::Host::Domain(_))));
            let names = Names::of("", &[]);
            let client = EgressClient::new(Networks::default(), Arc::clone(&names) as Arc<_>, AUTHORITY).unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let sent = runtime.block_on(client.post(&target, HeaderMap::new(), Bytes::new(), LONG));
            prop_assert!(matches!(sent, Err(EgressError::Dns(_))), "{sent:?}");
            prop_assert_eq!(&*names.asked.lock().unwrap(), &[checked.host_str().unwrap().to_owned()]);
        }
    }
}
