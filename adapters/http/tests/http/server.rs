//! The server: what no router can see. On real sockets and real time, with short limits.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use marketplace::ports::{Bucket, LimitKey, Party, RateLimiter, Taken};
use marketplace_http::{Admission, Limits, Problem, Readiness, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::world::{SELLER, Setup, World};

/// How long a test waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// A limit that no test reaches: what would wait for it fails by [`PATIENCE`].
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
    async fn start(limits: Limits, readiness: Box<dyn Readiness>) -> Server {
        Server::of(Setup { limits, readiness, ..Setup::default() }).await
    }

    async fn of(setup: Setup) -> Server {
        let limits = setup.limits.clone();
        let world = World::with(setup).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (router, tasks, token) = (world.router.clone(), world.app.tx.tasks.clone(), stop.clone());
        let ended =
            world.app.tx.tasks.spawn(async move { serve(listener, router, &tasks, token, &limits).await });
        Server { world, address, stop, ended }
    }

    async fn with(limits: Limits) -> Server {
        Server::start(limits, Box::new(Vec::<Problem>::new)).await
    }

    async fn connect(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Stops it and waits until it has.
    async fn stopped(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.ended).await.unwrap().unwrap().unwrap().unwrap();
        timeout(PATIENCE, self.world.app.tx.tasks.stop()).await.unwrap();
    }
}

/// Everything until the server closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // A reset is a close too.
    let _ = timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap();
    text
}

/// Keeps a request in flight until it is released.
#[derive(Clone, Default)]
struct Held {
    begun: Arc<Notify>,
    released: Arc<Notify>,
}

impl Held {
    async fn begun(&self) {
        timeout(PATIENCE, self.begun.notified()).await.unwrap();
    }
}

#[async_trait]
impl Readiness for Held {
    async fn problems(&self) -> Vec<Problem> {
        self.begun.notify_one();
        self.released.notified().await;
        Vec::new()
    }
}

#[tokio::test]
async fn requests_are_served_one_after_another_on_one_connection() {
    let server = Server::with(Limits { idle: SHORT, header_read: NEVER, ..Limits::default() }).await;
    let answers = rest(server.connect(&HEALTH.repeat(3)).await).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
    server.stopped().await;
}

/// One answer, on a connection that stays.
async fn answered(stream: &mut TcpStream) {
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
async fn an_idle_connection_stays_for_longer_than_a_head_may_take() {
    let server = Server::with(Limits { idle: NEVER, header_read: SHORT, ..Limits::default() }).await;
    let mut idle = server.connect(HEALTH).await;
    for _ in 0..2 {
        answered(&mut idle).await;
        // Idle for as long as it takes to close a connection that sends no head.
        assert_eq!(rest(server.connect("").await).await, "");
        idle.write_all(HEALTH.as_bytes()).await.unwrap();
    }
    answered(&mut idle).await;
    // What is begun has the limit of every head, also after it was idle.
    idle.write_all(b"GET /healthz").await.unwrap();
    assert!(!rest(idle).await.contains("200 OK"));
    server.stopped().await;
}

#[tokio::test]
async fn an_idle_connection_ends_when_others_wait_for_its_place() {
    let limits = Limits { connections: 1, idle: NEVER, header_read: SHORT, ..Limits::default() };
    let server = Server::with(limits).await;
    let mut idle = server.connect(HEALTH).await;
    answered(&mut idle).await;
    let mut next = server.connect(HEALTH).await;
    answered(&mut next).await;
    assert_eq!(rest(idle).await, "", "it is closed without an answer");
    server.stopped().await;
}

/// Notes whose requests they are.
#[derive(Default)]
struct Noted(Mutex<Vec<Party>>);

#[async_trait]
impl RateLimiter for Noted {
    async fn take(&self, key: &LimitKey, _: Bucket) -> Taken {
        self.0.lock().unwrap().push(key.party);
        Taken::Token { remaining: 0 }
    }
}

#[tokio::test]
async fn a_request_is_known_by_the_address_of_its_connection() {
    let limiter = Arc::new(Noted::default());
    let admission = Admission::new(limiter.clone(), Bucket::new(NonZeroU32::MIN, 1).unwrap());
    let server = Server::of(Setup { admission: Some(admission), ..Setup::default() }).await;
    let anonymous = "GET /api/v1/products HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = rest(server.connect(anonymous).await).await;
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("\r\nratelimit: "), "{answer}");
    server.stopped().await;
    assert_eq!(*limiter.0.lock().unwrap(), [Party::at("127.0.0.1".parse().unwrap())]);
}

#[tokio::test]
async fn headers_that_do_not_come_end_the_connection() {
    let server = Server::with(Limits { header_read: SHORT, ..Limits::default() }).await;
    for beginning in ["", "GET /healthz HTTP/1.1\r\nhost:"] {
        let began = Instant::now();
        assert!(!rest(server.connect(beginning).await).await.contains("200 OK"));
        assert!(began.elapsed() >= SHORT);
    }
    server.stopped().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let server = Server::with(Limits { body_read: SHORT, ..Limits::default() }).await;
    let token = server.world.token(SELLER, 1, &[]);
    let head = format!(
        "POST /api/v1/products HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: 20\r\n\r\n{{"
    );
    let answer = rest(server.connect(&head).await).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains(r#""code":"A0400""#), "{answer}");
    server.stopped().await;
}

#[tokio::test]
async fn who_takes_no_answers_is_cut_off() {
    let server = Server::with(Limits { answer_taken: SHORT, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let requests = HEALTH.repeat(1000);
    // Answers fill the buffers between the two, then the server reads no further requests.
    let cut = async { while stream.write_all(requests.as_bytes()).await.is_ok() {} };
    timeout(PATIENCE, cut).await.unwrap();
    server.stopped().await;
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused() {
    let server = Server::with(Limits { header_bytes: 8192, ..Limits::default() }).await;
    let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "x".repeat(9000));
    let answer = rest(server.connect(&head).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    server.stopped().await;
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_for_another_to_end() {
    let server = Server::with(Limits { connections: 1, header_read: SHORT, ..Limits::default() }).await;
    let first = server.connect("GET /healthz").await;
    let second = server.connect(HEALTH).await;
    assert!(rest(second).await.contains("200 OK"));
    drop(first);
    server.stopped().await;
}

#[tokio::test]
async fn a_stop_lets_the_request_in_flight_finish_and_takes_no_other() {
    let (held, limits) = (Held::default(), Limits { drain: NEVER, header_read: NEVER, ..Limits::default() });
    let server = Server::start(limits, Box::new(held.clone())).await;
    let in_flight = server.connect(READY).await;
    held.begun().await;
    let mut idle = server.connect(HEALTH).await;
    let mut byte = [0];
    timeout(PATIENCE, idle.read_exact(&mut byte)).await.unwrap().unwrap();
    server.stop.cancel();
    // What is idle is closed at once, and the server goes on until what is in flight is answered.
    rest(idle).await;
    assert!(!server.ended.is_finished());
    held.released.notify_one();
    let address = server.address;
    server.stopped().await;
    let answer = rest(in_flight).await;
    assert!(answer.contains("200 OK") && answer.contains("connection: close"), "{answer}");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_connection_that_has_said_nothing_does_not_hold_a_stop_up() {
    let server = Server::with(Limits { drain: NEVER, header_read: NEVER, ..Limits::default() }).await;
    let silent = server.connect("").await;
    let served =
        rest(server.connect("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await).await;
    assert!(served.contains("200 OK"));
    server.stopped().await;
    drop(silent);
}

#[tokio::test]
async fn a_request_that_does_not_finish_is_cut_off_after_the_drain() {
    let (held, limits) = (Held::default(), Limits { drain: SHORT, ..Limits::default() });
    let server = Server::start(limits, Box::new(held.clone())).await;
    let in_flight = server.connect(READY).await;
    held.begun().await;
    let began = Instant::now();
    server.stopped().await;
    assert!(began.elapsed() >= SHORT, "{:?}", began.elapsed());
    assert_eq!(rest(in_flight).await, "");
}
