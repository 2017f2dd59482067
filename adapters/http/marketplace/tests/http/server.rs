//! Tests of the server with real sockets, real time and short timeouts.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_http::{Limits, Problem, Readiness, serve};
use marketplace::ports::{Bucket, MockRateLimiter, Party, RateLimitDecision};
use marketplace_http::RateLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::world::{SELLER, Setup, World};

/// Maximum time a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
/// A timeout that no test reaches: a test that waits for it fails after [`PATIENCE`].
const NEVER: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(200);
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
const READY: &str = "GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n";

struct Server {
    world: World,
    address: SocketAddr,
    stop: CancellationToken,
    ended: JoinHandle<Option<std::io::Result<()>>>,
}

impl Server {
    async fn start(limits: Limits, readiness: Arc<dyn Readiness>) -> Server {
        Server::of(Setup { limits, readiness, ..Setup::default() }).await
    }

    async fn of(setup: Setup) -> Server {
        let limits = setup.limits.clone();
        let world = World::with(setup).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let router = world.router.clone();
        let tasks = world.app.tx.tasks.clone();
        let token = stop.clone();
        let ended =
            world.app.tx.tasks.spawn(async move { serve(listener, router, &tasks, token, &limits).await });
        Server { world, address, stop, ended }
    }

    async fn with(limits: Limits) -> Server {
        Server::start(limits, Arc::new(Vec::<Problem>::new)).await
    }

    async fn connect(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Stops the server and waits until it has stopped.
    async fn stopped(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.ended).await.unwrap().unwrap().unwrap().unwrap();
        timeout(PATIENCE, self.world.app.tx.tasks.stop()).await.unwrap();
    }
}

/// Reads until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // A connection reset counts as closed.
    let _ = timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap();
    text
}

/// A readiness check that keeps its request in flight until the test releases it.
#[derive(Clone, Default)]
struct BlockingReadiness {
    begun: Arc<Notify>,
    released: Arc<Notify>,
}

impl BlockingReadiness {
    async fn begun(&self) {
        timeout(PATIENCE, self.begun.notified()).await.unwrap();
    }
}

#[async_trait]
impl Readiness for BlockingReadiness {
    async fn problems(&self) -> Vec<Problem> {
        self.begun.notify_one();
        self.released.notified().await;
        Vec::new()
    }
}

#[tokio::test]
async fn server_serves_pipelined_requests_on_one_connection() {
    let server = Server::with(Limits { idle: SHORT, header_read: NEVER, ..Limits::default() }).await;
    let responses = rest(server.connect(&HEALTH.repeat(3)).await).await;
    assert_eq!(responses.matches("HTTP/1.1 200 OK").count(), 3, "{responses}");
    server.stopped().await;
}

/// Reads one 200 response from a connection that stays open.
async fn expect_ok(stream: &mut TcpStream) {
    let mut text = String::new();
    while !text.ends_with('}') {
        let mut bytes = [0; 1024];
        let count = timeout(PATIENCE, stream.read(&mut bytes)).await.unwrap().unwrap();
        assert!(count > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
}

#[tokio::test]
async fn idle_connection_is_not_closed_by_head_timeout() {
    let server = Server::with(Limits { idle: NEVER, header_read: SHORT, ..Limits::default() }).await;
    let mut idle = server.connect(HEALTH).await;
    for _ in 0..2 {
        expect_ok(&mut idle).await;
        // The connection is idle for at least the head timeout: until the server has closed another connection that
        // sends no head.
        assert_eq!(rest(server.connect("").await).await, "");
        idle.write_all(HEALTH.as_bytes()).await.unwrap();
    }
    expect_ok(&mut idle).await;
    // The head timeout also applies to a request head that begins after an idle time.
    idle.write_all(b"GET /healthz").await.unwrap();
    assert!(!rest(idle).await.contains("200 OK"));
    server.stopped().await;
}

#[tokio::test]
async fn idle_connection_closes_when_others_wait_for_a_slot() {
    let limits = Limits { connections: 1, idle: NEVER, header_read: SHORT, ..Limits::default() };
    let server = Server::with(limits).await;
    let mut idle = server.connect(HEALTH).await;
    expect_ok(&mut idle).await;
    let mut next = server.connect(HEALTH).await;
    expect_ok(&mut next).await;
    assert_eq!(rest(idle).await, "", "the idle connection is closed without a response");
    server.stopped().await;
}

#[tokio::test]
async fn server_passes_peer_address_to_rate_limiter() {
    let peer = Party::at("127.0.0.1".parse().unwrap());
    let mut limiter = MockRateLimiter::new();
    limiter
        .expect_take()
        .withf(move |key, _| key.party == peer)
        .once()
        .return_const(RateLimitDecision::Token { remaining: 0 });
    let admission = RateLimits::new(Arc::new(limiter), Bucket::new(NonZeroU32::MIN, 1).unwrap());
    let server = Server::of(Setup { admission: Some(admission), ..Setup::default() }).await;
    let anonymous = "GET /api/v1/products HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let response = rest(server.connect(anonymous).await).await;
    assert!(response.starts_with("HTTP/1.1 401 ") && response.contains("\r\nratelimit: "), "{response}");
    server.stopped().await;
}

#[tokio::test]
async fn head_timeout_closes_connection() {
    let server = Server::with(Limits { header_read: SHORT, ..Limits::default() }).await;
    for beginning in ["", "GET /healthz HTTP/1.1\r\nhost:"] {
        let began = Instant::now();
        assert!(!rest(server.connect(beginning).await).await.contains("200 OK"));
        assert!(began.elapsed() >= SHORT);
    }
    server.stopped().await;
}

#[tokio::test]
async fn body_timeout_is_408() {
    let server = Server::with(Limits { body_read: SHORT, ..Limits::default() }).await;
    let token = server.world.token(SELLER, 1, &[]);
    let head = format!(
        "POST /api/v1/products HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 20\r\n\r\n{{"
    );
    let response = rest(server.connect(&head).await).await;
    assert!(response.starts_with("HTTP/1.1 408 ") && response.contains(r#""code":"A0400""#), "{response}");
    server.stopped().await;
}

#[tokio::test]
async fn client_that_reads_no_response_is_disconnected() {
    let server = Server::with(Limits { response_write: SHORT, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let requests = HEALTH.repeat(1000);
    // Responses fill the socket buffers; then the server reads no further requests.
    let cut = async { while stream.write_all(requests.as_bytes()).await.is_ok() {} };
    timeout(PATIENCE, cut).await.unwrap();
    server.stopped().await;
}

/// The HTTP library rejects these requests before a route could; their responses have the envelope, too.
#[tokio::test]
async fn malformed_or_too_large_request_head_is_refused_with_the_envelope() {
    let small = Limits { header_bytes: 8192, ..Limits::default() };
    // The library's own limit of a URL is 65,534 bytes.
    let large = Limits { header_bytes: 128 * 1024, ..Limits::default() };
    let [small, server] = [Server::with(small).await, Server::with(large).await];
    let with_header = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "x".repeat(9_000));
    let with_url = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(70_000));
    let heads = [
        (with_header, 431, "too large"),
        (with_url, 414, "URL is too long"),
        ("GET /a b HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400, "not valid HTTP/1.1"),
        ("GET /healthz HTTP/9.9\r\nhost: x\r\n\r\n".to_owned(), 400, "not valid HTTP/1.1"),
        ("GET /healthz HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), 400, "not valid HTTP/1.1"),
        ("GET /healthz HTTP/1.1\r\ncontent-length: x\r\n\r\n".to_owned(), 400, "not valid HTTP/1.1"),
        ("\u{16}\u{3}\u{1} a TLS client hello\r\n\r\n".to_owned(), 400, "not valid HTTP/1.1"),
        // After a valid request on the same connection.
        (format!("{HEALTH}GET /healthz HTTP/1.1\r\nno colon\r\n\r\n"), 400, "not valid HTTP/1.1"),
    ];
    for (head, status, message) in heads {
        let server = if status == 431 { &small } else { &server };
        let answer = rest(server.connect(&head).await).await;
        let last = answer.rfind("HTTP/1.1 ").map_or("", |at| &answer[at..]);
        assert!(last.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let (headers, body) = last.split_once("\r\n\r\n").unwrap();
        let named = |name: &str| {
            let mut values = headers.lines().filter_map(|line| line.split_once(": "));
            values.find(|(given, _)| *given == name).map(|(_, value)| value)
        };
        let envelope: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&envelope["code"], &envelope["data"]), (&"A0400".into(), &serde_json::Value::Null));
        assert!(envelope["message"].as_str().unwrap().contains(message), "{body}");
        assert_eq!(named("x-trace-id"), envelope["traceId"].as_str(), "{answer}");
        assert_eq!(envelope["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(named("content-length"), Some(body.len().to_string().as_str()), "{answer}");
        assert_eq!(named("content-type"), Some("application/json"));
        assert_eq!(named("connection"), Some("close"));
        assert!(headers.contains("x-content-type-options: nosniff"), "{answer}");
    }
    small.stopped().await;
    server.stopped().await;
}

#[tokio::test]
async fn connection_over_limit_waits_for_a_slot() {
    let server = Server::with(Limits { connections: 1, header_read: SHORT, ..Limits::default() }).await;
    let first = server.connect("GET /healthz").await;
    let second = server.connect(HEALTH).await;
    assert!(rest(second).await.contains("200 OK"));
    drop(first);
    server.stopped().await;
}

#[tokio::test]
async fn shutdown_finishes_request_in_flight_and_accepts_no_new_request() {
    let readiness = BlockingReadiness::default();
    let limits = Limits { drain: NEVER, header_read: NEVER, ..Limits::default() };
    let server = Server::start(limits, Arc::new(readiness.clone())).await;
    let in_flight = server.connect(READY).await;
    readiness.begun().await;
    let mut idle = server.connect(HEALTH).await;
    let mut byte = [0];
    timeout(PATIENCE, idle.read_exact(&mut byte)).await.unwrap().unwrap();
    server.stop.cancel();
    // The idle connection is closed at once; the server waits for the request in flight.
    rest(idle).await;
    assert!(!server.ended.is_finished());
    readiness.released.notify_one();
    let address = server.address;
    server.stopped().await;
    let response = rest(in_flight).await;
    assert!(response.contains("200 OK") && response.contains("connection: close"), "{response}");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn silent_connection_does_not_delay_shutdown() {
    let server = Server::with(Limits { drain: NEVER, header_read: NEVER, ..Limits::default() }).await;
    let silent = server.connect("").await;
    let served =
        rest(server.connect("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await).await;
    assert!(served.contains("200 OK"));
    server.stopped().await;
    drop(silent);
}

#[tokio::test]
async fn request_in_flight_is_aborted_after_drain_timeout() {
    let readiness = BlockingReadiness::default();
    let limits = Limits { drain: SHORT, ..Limits::default() };
    let server = Server::start(limits, Arc::new(readiness.clone())).await;
    let in_flight = server.connect(READY).await;
    readiness.begun().await;
    let began = Instant::now();
    server.stopped().await;
    assert!(began.elapsed() >= SHORT, "{:?}", began.elapsed());
    assert_eq!(rest(in_flight).await, "");
}
