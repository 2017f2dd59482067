//! Requests of the client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handover_egress::{
    EgressClient, EgressError, EgressResponse, Networks, Resolver, SystemResolver, UrlRules,
};
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
    for (scheme, is_encrypted) in [("http", false), ("https", true)] {
        let receiver = receiver(OK, is_encrypted).await;
        let names = Names::of("receiver.example", &[&["127.0.0.1"]]);
        let client = client(Arc::clone(&names));
        for _ in 0..100 {
            let url = format!("{scheme}://receiver.example:{}/hook", receiver.address.port());
            let response = post(&client, &url, LONG).await.unwrap();
            assert_eq!((response.status.as_u16(), response.body.as_ref()), (200, &b"done"[..]));
        }
        assert_eq!(receiver.connections.load(Ordering::SeqCst), 1, "{scheme}");
        assert_eq!(names.asked.lock().unwrap().len(), 1, "{scheme}");
    }
}

/// Runs another test in a process whose environment names a proxy for every request.
#[test]
fn proxy_of_the_environment_is_not_used() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "client::connection_is_used_again"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        child.env(name, &url).env(name.to_lowercase(), &url);
    }
    let output = child.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(proxy.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
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
    assert_eq!(refused, not_public());
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
    assert_eq!(refused, not_public());
}

/// The error does not contain the address: it may come from a name server of an internal network.
fn not_public() -> EgressError {
    EgressError::Refused("receiver.example has an address that is not public".to_owned())
}

#[tokio::test]
async fn name_that_leads_to_this_service_is_refused() {
    let receiver = receiver(OK, false).await;
    let other = crate::receiver::receiver(OK, false).await;
    for own in [receiver.address, SocketAddr::from(([0, 0, 0, 0], receiver.address.port()))] {
        let networks = Networks::public_and(vec!["127.0.0.0/8".parse().unwrap()]).without_own(vec![own]);
        let names = Names::of("receiver.example", &[&["127.0.0.1"]]);
        let client = EgressClient::new(networks, names, AUTHORITY).unwrap();
        let url = format!("http://receiver.example:{}/", receiver.address.port());
        let refused = post(&client, &url, LONG).await.unwrap_err();
        assert_eq!(
            refused,
            EgressError::Refused("the host receiver.example is this service itself".to_owned())
        );
        let url = format!("http://receiver.example:{}/", other.address.port());
        assert!(post(&client, &url, LONG).await.is_ok());
    }
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 0);
}

/// The lookups go on after their requests ended, and a further one would get no thread.
#[tokio::test]
async fn lookups_are_limited_and_the_error_says_so() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let lookup = move |host: &str| {
        if host == "hanging.example" {
            released.lock().unwrap().recv().ok();
        }
        Ok(vec!["127.0.0.1".parse().unwrap()])
    };
    let lookup = Arc::new(lookup);
    let resolver = SystemResolver::new(lookup.clone(), 1);
    let hanging = tokio::time::timeout(Duration::from_millis(50), resolver.resolve("hanging.example"));
    assert!(hanging.await.is_err());
    let refused = resolver.resolve("receiver.example").await.unwrap_err();
    assert_eq!(refused.to_string(), "too many lookups wait for name servers that do not answer");
    release.send(()).unwrap();
    assert_eq!(
        resolver.resolve("receiver.example").await.unwrap(),
        ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]
    );
    // The lookups of one host do not take those of others.
    let resolver = SystemResolver::new(lookup, 5);
    for _ in 0..10 {
        let hanging = tokio::time::timeout(Duration::from_millis(5), resolver.resolve("hanging.example"));
        assert!(hanging.await.is_err());
    }
    resolver.resolve("receiver.example").await.unwrap();
    drop(release);
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
            if let Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)) = checked.host() {
                // A public address would be connected to.
                prop_assert_eq!(target.uri().host(), checked.host_str());
                return Ok(());
            }
            let names = Names::of("", &[]);
            let client = EgressClient::new(Networks::default(), Arc::clone(&names) as Arc<_>, AUTHORITY).unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            let sent = runtime.block_on(client.post(&target, HeaderMap::new(), Bytes::new(), LONG));
            prop_assert!(matches!(sent, Err(EgressError::Dns(_))), "{sent:?}");
            prop_assert_eq!(&*names.asked.lock().unwrap(), &[checked.host_str().unwrap().to_owned()]);
        }
    }

    /// The address that the rules have checked is the address that the client connects to.
    #[test]
    fn client_connects_to_the_address_that_was_checked(host in spelling()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let connected = runtime.block_on(async {
            let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
            let url = format!("http://{host}:{}/", listener.local_addr().unwrap().port());
            let names = Names::of("", &[]);
            let client = client(Arc::clone(&names));
            let request = tokio::spawn(async move { post(&client, &url, LONG).await });
            let (stream, _) = tokio::time::timeout(LONG, listener.accept()).await.unwrap().unwrap();
            request.abort();
            assert!(names.asked.lock().unwrap().is_empty());
            stream.local_addr().unwrap().ip()
        });
        let checked = url::Url::parse(&format!("http://{host}/")).unwrap();
        prop_assert_eq!(checked.host_str().map(str::to_owned), Some(connected.to_string()));
    }
}

/// Spellings of addresses in 127.0.0.0/8.
fn spelling() -> impl Strategy<Value = String> {
    (any::<[u8; 3]>(), 0..7_u8).prop_map(|([b, c, d], form)| {
        // Without the addresses of the network itself and of its broadcast.
        let d = d.clamp(1, 254);
        let number = u32::from_be_bytes([127, b, c, d]);
        let rest = number & 0x00ff_ffff;
        match form {
            0 => format!("127.{b}.{c}.{d}"),
            1 => number.to_string(),
            2 => format!("{number:#x}"),
            3 => format!("0{number:o}"),
            4 => format!("0x7f.{rest}"),
            5 => format!("0177.{b:#x}.{}", rest & 0xffff),
            _ => format!("１２７.{b}。{c}.{d}."),
        }
    })
}
