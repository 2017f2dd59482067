//! Log lines of requests.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use handover_http::{TokenRules, Tokens};
use handover_outbox::ports::StoreError;
use serde_json::{Value, json};
use tracing_subscriber::fmt::writer::OptionalWriter;

use crate::concurrency_limit::gated;
use crate::tokens::forged;
use crate::world::{BUYER, FailingStore, SECRET, Setup, World, start};

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

thread_local! {
    /// The log of this thread; each test runs in its own thread.
    static CURRENT: RefCell<Option<Log>> = const { RefCell::new(None) };
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures the log lines of its thread until it is dropped.
struct CaptureGuard;

impl Drop for CaptureGuard {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

impl Log {
    /// Installs one subscriber for the whole process: `tracing` caches per call site, for all threads, whether a subscriber
    /// is interested.
    fn capture(&self) -> CaptureGuard {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            let log = || OptionalWriter::from(CURRENT.with_borrow(Option::clone));
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(log).init();
        });
        CURRENT.set(Some(self.clone()));
        CaptureGuard
    }

    /// The captured log lines of the HTTP crates.
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_http =
            |target: &str| ["handover_http", "marketplace_http"].iter().any(|name| target.starts_with(name));
        lines.filter(|line| is_http(line["target"].as_str().unwrap())).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn request_logs_one_line_with_trace_route_status_and_duration() {
    let world = World::new().await;
    let token = world.token(BUYER, 1, &[]);
    let log = Log::default();
    let guard = log.capture();
    let request = world
        .get("/api/v1/orders/4711?x")
        .header("x-trace-id", "t-1")
        .header("x-request-id", "r-1")
        .token(&token);
    request.send().await.expect(400, "A0400");
    drop(guard);
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(
        (&line["level"], &line["message"], &line["status"]),
        (&"INFO".into(), &"request: completed".into(), &400.into())
    );
    assert_eq!(line["durationMs"], 0);
    let span = &line["span"];
    assert_eq!(
        (&span["traceId"], &span["requestId"], &span["method"], &span["route"]),
        (&"t-1".into(), &"r-1".into(), &"GET".into(), &"/api/v1/orders/{id}".into())
    );
    assert!(!log.lines()[0].to_string().contains(&token));
}

#[tokio::test(start_paused = true)]
async fn internal_error_is_logged_once_with_cause_and_trace() {
    let store = Some(Arc::new(FailingStore(|| StoreError::Backend("swordfish".into()))) as Arc<_>);
    let world = World::with(Setup { store, ..Setup::default() }).await;
    let log = Log::default();
    let guard = log.capture();
    world.get_as(BUYER, "/api/v1/orders").header("x-trace-id", "t-2").send().await.expect(500, "B0001");
    drop(guard);
    let errors: Vec<Value> = log.lines().into_iter().filter(|line| line["level"] == "ERROR").collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0]["error"].as_str().unwrap().contains("swordfish"));
    assert_eq!(errors[0]["span"]["traceId"], "t-2");
}

#[tokio::test(start_paused = true)]
async fn one_of_a_thousand_rejected_requests_is_logged() {
    let (world, gate) = gated(1).await;
    let mut stuck = Box::pin(world.get_as(BUYER, "/api/v1/products").send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut stuck).await.is_err());
    let log = Log::default();
    let guard = log.capture();
    for _ in 0..1001 {
        world.get("/api/v1/products").send().await.expect(503, "C0001");
    }
    drop(guard);
    let lines = log.lines();
    let fields = |line: &Value| (line["level"].clone(), line["rejected"].clone());
    assert_eq!(
        lines.iter().map(fields).collect::<Vec<_>>(),
        [("WARN".into(), 1.into()), ("WARN".into(), 1001.into())]
    );
    gate.add_permits(1);
    stuck.await.expect(200, "00000");
}

#[tokio::test(start_paused = true)]
async fn reason_for_rejected_token_is_logged() {
    let rules = TokenRules {
        audience: Some("shop".into()),
        issuer: Some("https://id.example".into()),
        ..TokenRules::default()
    };
    let world = World::with(Setup {
        tokens: Some(Tokens::new(SECRET).unwrap().with_rules(rules)),
        ..Setup::default()
    })
    .await;
    let later = start().timestamp() + 60;
    let claims = |iss: &str, aud: &str, exp: i64| json!({ "sub": "7", "iss": iss, "aud": aud, "exp": exp });
    let own = "https://id.example";
    let log = Log::default();
    let guard = log.capture();
    for (secret, claims) in [
        (SECRET, claims("https://other.example", "shop", later)),
        (SECRET, claims(own, "bank", later)),
        (SECRET, claims(own, "shop", 1)),
        (b"another secret of thirty-two bytes".as_slice(), claims(own, "shop", later)),
        (SECRET, json!({ "sub": "alice", "iss": own, "aud": "shop", "exp": later })),
    ] {
        let token = forged(secret, &json!({ "alg": "HS256" }), &claims);
        world.get("/api/v1/orders").token(&token).send().await.expect(401, "A0301");
    }
    world.get("/api/v1/orders").send().await.expect(401, "A0301");
    drop(guard);
    let lines = log.lines();
    let refused = lines.iter().filter(|line| line["message"] == "authentication: token refused");
    let reasons: Vec<&str> = refused.map(|line| line["reason"].as_str().unwrap()).collect();
    let expected = [
        "wrong issuer",
        "wrong audience",
        "expired",
        "wrong signature",
        "the claim sub is missing or malformed",
    ];
    assert_eq!(reasons, expected);
}
