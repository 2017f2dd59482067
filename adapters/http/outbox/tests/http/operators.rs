//! The operators' routes, nested in an axum application without the toolkit's envelope, tokens and layers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use handover_events::{AggregateRef, ConsumeStatus, EventId, OutboxStatus, TenantId, Trace};
use handover_http::envelope::Code;
use handover_http::refusal::Refusal;
use handover_http::{OperatorCall, OperatorRoutes, OperatorState, TokenGuard, Tokens, operator_router};
use handover_memory::{MemoryBroker, MemoryStore, MemoryUnit, SeededRandom, VirtualClock};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::operations::Operator;
use handover_outbox::ports::{
    Consumption, DeadLetter, DeadLetterStatus, EventMetadata, Expected, IdleConsumers, NewEvent, UnitOfWork,
};
use handover_outbox::topology::Topology;
use handover_outbox::{EventSpec, Outbox, RelaySettings, Tasks, Transactor, WakeupNotifier, runtime};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{SECRET, start};

const QUEUE: &str = "library.reminders";
const EVENT: &str = "0192f0c1-0000-7000-8000-000000000001";

struct Reminders;

#[async_trait]
impl Handler<MemoryUnit> for Reminders {
    fn name(&self) -> &str {
        "reminders"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["BOOK_LENT"]
    }

    async fn apply(&self, _: &mut MemoryUnit, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        Ok(events.iter().map(|_| Applied::result("reminder noted")).collect())
    }
}

/// A library with one event that was sent.
struct Library {
    outbox: Outbox,
    tx: Transactor<MemoryUnit, MemoryUnit>,
}

impl Library {
    async fn new() -> Library {
        let clock = Arc::new(VirtualClock::new(start()));
        let wake = WakeupNotifier::default();
        let broker = MemoryBroker::new(clock.clone());
        let tx = Transactor::new(
            Arc::new(MemoryStore::<()>::new(clock.clone(), wake.clone())) as Arc<_>,
            clock,
            Arc::new(SeededRandom::new(7)),
            Tasks::default(),
        );
        let topology = Topology::new("library.events", "library.dead-letters", "library.dead");
        let reminders = Subscriber::new(QUEUE, Arc::new(Reminders));
        let outbox = Outbox::new(tx.outbox(), Arc::new(broker), topology)
            .with_event(EventSpec::new("BOOK_LENT", "book.lent"))
            .with_consumer(&reminders, &["book.lent"]);
        let library = Library { outbox, tx };
        runtime::prepare(&library.outbox).await.unwrap();
        let mut unit = library.tx.begin().await.unwrap();
        unit.outbox().append(&[library.event()]).await.unwrap();
        unit.commit().await.unwrap();
        runtime::start_relay(&library.outbox, &wake, &RelaySettings::default());
        library.sent().await;
        library
    }

    fn event(&self) -> NewEvent {
        NewEvent {
            event_id: EVENT.parse().unwrap(),
            event_type: "BOOK_LENT".to_owned(),
            aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: 1.into() },
            aggregate_seq: Some(1),
            payload: r#"{"bookId":1}"#.to_owned(),
            metadata: EventMetadata::default(),
            occurred_at: self.outbox.now(),
            max_retry_count: 0,
            idle_consumers: IdleConsumers::default(),
            routing_key: None,
            due: None,
        }
    }

    #[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
    async fn sent(&self) {
        let event: EventId = EVENT.parse().unwrap();
        for _ in 0..6_000 {
            let mut unit = self.tx.begin().await.unwrap();
            let row = unit.outbox().outbox_by_event(std::slice::from_ref(&event)).await.unwrap().remove(0);
            if row.status == OutboxStatus::Sent {
                return;
            }
            drop(unit);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the event was not sent within a minute");
    }

    /// Parks the event and a message of another system as dead letters.
    async fn with_dead_letters(&self) {
        let mut unit = self.tx.begin().await.unwrap();
        let event: EventId = EVENT.parse().unwrap();
        let row = unit.outbox().outbox_by_event(&[event]).await.unwrap().remove(0);
        let dead = Consumption {
            consumer: "reminders".into(),
            event_id: row.event_id.clone(),
            event_type: row.event_type.clone(),
            aggregate: row.aggregate.clone(),
            aggregate_seq: row.aggregate_seq,
            expected: Expected::Absent,
            status: ConsumeStatus::Dead,
            attempts: 4,
            next_retry_time: None,
            lease_until: None,
            error_message: Some("out of paper".into()),
            idempotency_key: None,
            consume_result: None,
            payload_hash: "h".into(),
            trace_id: row.trace_id().to_owned(),
            cost_ms: 0,
            consume_time: self.outbox.now(),
        };
        unit.outbox().record(&[dead]).await.unwrap();
        let parked = [EVENT.to_owned(), foreign_key()].map(|key| DeadLetter {
            queue: QUEUE.into(),
            key,
            tenant: TenantId::DEFAULT,
            event_type: None,
            trace_id: None,
            body: "{}".into(),
            reason: "out of paper".into(),
            died_at: self.outbox.now(),
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        });
        unit.outbox().park(&parked).await.unwrap();
        unit.commit().await.unwrap();
    }
}

fn foreign_key() -> String {
    "0123456789abcdef".repeat(4)
}

/// The application's own authentication: a header that its proxy sets.
fn staff(head: &Parts, trace: Trace) -> Result<Operator, Refusal> {
    let name = head.headers.get("x-staff").and_then(|value| value.to_str().ok());
    let name = name.ok_or_else(|| Refusal::of(Code::NOT_AUTHENTICATED))?;
    if name == "guest" {
        return Err(Refusal::of(Code::NOT_ALLOWED));
    }
    let tenant = TenantId::DEFAULT;
    Ok(Operator { name: name.to_owned(), tenant, sees_all_tenants: false, sees_personal_data: true, trace })
}

/// A route of the application in the operators' list.
#[utoipa::path(get, path = "/readers", responses((status = 200, description = "The operator's readers", body = String)))]
async fn readers(OperatorCall { operator, .. }: OperatorCall) -> String {
    format!("readers of {}", operator.name)
}

fn application(library: &Library) -> Router {
    let own = OpenApiRouter::new().routes(routes!(readers));
    let state = OperatorState::new(library.outbox.clone(), staff).with_routes(own);
    Router::new().route("/", get(async || "a library")).nest("/admin/outbox", operator_router(state))
}

async fn send(application: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = application.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn read(application: &Router, path: &str) -> Value {
    let request = Request::get(format!("/admin/outbox{path}")).header("x-staff", "ada");
    let (status, body) = send(application, request.body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["data"].take()
}

async fn change(application: &Router, path: &str, body: &Value) -> Value {
    let request = Request::post(format!("/admin/outbox{path}")).header("x-staff", "ada");
    let request = request.header("content-type", "application/json").body(Body::from(body.to_string()));
    let (status, body) = send(application, request.unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["data"].take()
}

#[tokio::test(start_paused = true)]
async fn row_is_listed_and_redriven() {
    let library = Library::new().await;
    let application = application(&library);
    let page = read(&application, "/outbox?status=SENT").await;
    assert_eq!((&page["items"][0]["eventId"], &page["nextCursor"]), (&json!(EVENT), &Value::Null));
    assert_eq!(page["items"][0]["payload"], json!({ "bookId": 1 }));
    let redriven = change(&application, "/outbox/redrive", &json!({ "eventIds": [EVENT] })).await;
    assert_eq!(redriven["redriven"], json!(1));
    let audit = read(&application, "/audit?changes=true").await;
    assert_eq!((&audit["items"][0]["actor"], &audit["items"][0]["changed"]), (&json!("ada"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn dead_letter_is_replayed_and_another_one_discarded() {
    let library = Library::new().await;
    library.with_dead_letters().await;
    let application = application(&library);
    let open = read(&application, "/dead-letters?status=OPEN").await;
    assert_eq!(open["items"].as_array().unwrap().len(), 2);
    let replayed = change(&application, "/dead-letters/replay", &json!({ "keys": [EVENT] })).await;
    assert_eq!((&replayed["replayed"], &replayed["refused"]), (&json!(1), &json!([])));
    let body = json!({ "keys": [foreign_key()], "reason": "a test message" });
    assert_eq!(change(&application, "/dead-letters/discard", &body).await["discarded"], json!(1));
    assert_eq!(read(&application, "/dead-letters?status=OPEN").await["items"], json!([]));
    assert_eq!(read(&application, "/queues").await["items"][0]["name"], json!("library.dead-letters"));
}

#[tokio::test(start_paused = true)]
async fn request_without_consent_of_guard_is_refused_in_an_envelope() {
    let library = Library::new().await;
    let application = application(&library);
    let operations = OperatorRoutes::<()>::default().into_openapi();
    assert!(operations.paths.paths.len() > 10);
    let own = ["/readers".to_owned()];
    let paths = operations.paths.paths.into_iter().filter(|(_, item)| item.get.is_some());
    for path in paths.map(|(path, _)| path).chain(own) {
        let target = format!("/admin/outbox{}", path.replace("{eventId}", EVENT));
        for (staff, status, code) in [(None, 401, "A0301"), (Some("guest"), 403, "A0303")] {
            let request = Request::get(&target);
            let request = staff.into_iter().fold(request, |request, name| request.header("x-staff", name));
            let (actual, body) = send(&application, request.body(Body::empty()).unwrap()).await;
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((actual.as_u16(), &body["code"]), (status, &json!(code)), "{target}");
            assert!(!body["traceId"].as_str().unwrap().is_empty(), "{target}");
        }
    }
    let refused = Request::post("/admin/outbox/outbox/redrive").body(Body::empty()).unwrap();
    assert_eq!(send(&application, refused).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn route_of_application_answers_and_other_routes_are_unchanged() {
    let library = Library::new().await;
    let application = application(&library);
    let request = Request::get("/admin/outbox/readers").header("x-staff", "ada").body(Body::empty()).unwrap();
    assert_eq!(send(&application, request).await, (StatusCode::OK, "readers of ada".to_owned()));
    let request = Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(send(&application, request).await, (StatusCode::OK, "a library".to_owned()));
    let request = Request::get("/no-such-route").body(Body::empty()).unwrap();
    assert_eq!(send(&application, request).await, (StatusCode::NOT_FOUND, String::new()));
}

#[tokio::test(start_paused = true)]
async fn token_guard_accepts_tokens_of_operators_only() {
    let library = Library::new().await;
    let tokens = Tokens::new(SECRET).unwrap();
    let guard = TokenGuard { tokens: tokens.clone(), clock: Arc::clone(library.outbox.tx.clock()) };
    let router = operator_router(OperatorState::new(library.outbox.clone(), guard));
    let hour = Duration::from_secs(3600);
    for (roles, status) in [(&["operator"], 200), (&["platform"], 200), (&["user"], 403)] {
        let token = tokens.issue(7, TenantId::DEFAULT, roles, hour, library.outbox.now()).unwrap();
        let request = Request::get("/stats").header("authorization", format!("Bearer {token}"));
        let (actual, body) = send(&router, request.body(Body::empty()).unwrap()).await;
        assert_eq!(actual.as_u16(), status, "{roles:?}: {body}");
    }
    let request = Request::get("/stats").header("authorization", "Bearer none").body(Body::empty()).unwrap();
    assert_eq!(send(&router, request).await.0, StatusCode::UNAUTHORIZED);
    let request = Request::delete("/stats").body(Body::empty()).unwrap();
    assert_eq!(send(&router, request).await.0, StatusCode::METHOD_NOT_ALLOWED);
}
