//! Spans of handlers, and the trace context from `enqueue` to the handler.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handover::{
    Builder, Data, Enqueuer, Event, HandlerError, Options, RetryPolicy, Trace, TraceLayer, at_least_once,
    in_transaction,
};
use opentelemetry::Context;
use opentelemetry::trace::{
    FutureExt as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    TraceState, TracerProvider as _,
};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use serde::{Deserialize, Serialize};
use sqlx::{Sqlite, SqliteConnection};
use tracing::Instrument as _;
use tracing::subscriber::DefaultGuard;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::library::{BookLent, Library, STOP_LIMIT, TestResult, note};

/// The spans that have ended.
#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<SpanData>>>);

impl Spans {
    fn ended(&self) -> MutexGuard<'_, Vec<SpanData>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpanExporter for Spans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.ended().extend(batch);
        Ok(())
    }
}

impl Spans {
    /// Exports the spans of this thread, on which all tasks of a test run.
    fn record() -> (Spans, DefaultGuard) {
        let spans = Spans::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        (spans, guard)
    }

    fn of(&self, name: &str) -> Vec<SpanData> {
        self.ended().iter().filter(|span| span.name == name).cloned().collect()
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.map(|attribute| attribute.value.to_string())
}

#[derive(Serialize, Deserialize, Event)]
#[event(name = "reader.reminded", aggregate = "reader")]
struct ReaderReminded {
    #[event(key)]
    reader: String,
}

/// Number of calls that fail: the group of the first delivery, and the first attempt.
const FAILURES: u32 = 2;

/// Fails, and then enqueues another event.
async fn remind(
    event: Event<BookLent>,
    connection: &mut SqliteConnection,
    calls: Data<AtomicU32>,
    outbox: Data<Enqueuer<Sqlite>>,
) -> handover::Result {
    if calls.fetch_add(1, Ordering::SeqCst) < FAILURES {
        return Err(HandlerError::retryable("out of paper"));
    }
    note(connection, event.event_id(), event.traceparent().unwrap_or_default()).await?;
    outbox.enqueue(connection, ReaderReminded { reader: event.reader.clone() }).await?;
    Ok(())
}

async fn count(event: Event<ReaderReminded>, connection: &mut SqliteConnection) -> handover::Result {
    Ok(note(connection, event.event_id(), "counted").await?)
}

/// Whether the first call has failed.
struct HasFailed(AtomicBool);

async fn mail(_: Event<BookLent>, has_failed: Data<HasFailed>) -> handover::Result {
    if has_failed.0.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    Err(HandlerError::retryable("no connection"))
}

fn builder(library: &Library) -> Builder<Sqlite> {
    let retry = RetryPolicy::consumer(Duration::from_millis(1), Duration::from_millis(1), 1);
    library
        .builder()
        .layer(TraceLayer)
        .data(AtomicU32::new(0))
        .data(HasFailed(AtomicBool::new(false)))
        .consumer("reminders", in_transaction(remind).retry(retry.clone()))
        .consumer("mail", at_least_once(mail).retry(retry))
        .consumer("counts", in_transaction(count))
}

#[tokio::test]
async fn handlers_of_an_event_and_of_its_follow_up_belong_to_the_trace_of_the_request() -> TestResult {
    let library = Library::open().await?;
    let (spans, _recording) = Spans::record();
    let (outbox, running) = library.start(builder(&library)).await?;
    library.lend(&outbox, BookLent::to("ann")).instrument(tracing::info_span!("request")).await?;
    running.drain().await?;
    let event = running.enqueued::<BookLent>().await?.remove(0);
    running.stop(STOP_LIMIT).await?;

    let [request] = spans.of("request").try_into().map_err(|_| "not one request")?;
    let trace = request.span_context.trace_id();
    let [published] = spans.of("publish book.lent").try_into().map_err(|_| "not one publish")?;
    assert_eq!(published.span_context.trace_id(), trace);
    assert_eq!(published.parent_span_id, request.span_context.span_id());
    assert_eq!(published.span_kind, SpanKind::Producer);
    for (name, value) in [
        ("messaging.system", "handover"),
        ("messaging.operation.name", "publish"),
        ("messaging.operation.type", "send"),
        ("messaging.destination.name", "book.lent"),
        ("messaging.message.id", event.event_id()),
    ] {
        assert_eq!(attribute(&published, name).as_deref(), Some(value), "{name}");
    }
    let calls = spans.of("process library.reminders");
    let (Some(failed), Some(applied)) = (calls.first(), calls.last()) else { panic!("no calls") };
    for (call, attempt, error) in [(failed, "1", Some("retryable")), (applied, "2", None)] {
        assert_eq!(call.span_context.trace_id(), trace);
        assert_eq!(call.parent_span_id, published.span_context.span_id());
        let links: Vec<SpanId> = call.links.iter().map(|link| link.span_context.span_id()).collect();
        assert_eq!(links, [published.span_context.span_id()]);
        assert_eq!(call.span_kind, SpanKind::Consumer);
        assert_eq!(attribute(call, "handover.attempt").as_deref(), Some(attempt));
        assert_eq!(attribute(call, "error.type").as_deref(), error);
        let status = if error.is_some() { Status::error("out of paper") } else { Status::Unset };
        assert_eq!(call.status, status);
    }
    for (name, value) in [
        ("messaging.system", "handover"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "library.reminders"),
        ("messaging.consumer.group.name", "reminders"),
        ("messaging.message.id", event.event_id()),
        ("handover.event.type", "book.lent"),
        ("handover.trace.id", &trace.to_string()),
    ] {
        assert_eq!(attribute(applied, name).as_deref(), Some(value), "{name}");
    }
    let attempt = |span: &SpanData| attribute(span, "handover.attempt").unwrap_or_default();
    assert_eq!(spans.of("process library.mail").iter().map(attempt).collect::<Vec<_>>(), ["1", "2"]);
    let [counted] = spans.of("process library.counts").try_into().map_err(|_| "not one call")?;
    assert_eq!(counted.span_context.trace_id(), trace);
    let [reminded] = spans.of("publish reader.reminded").try_into().map_err(|_| "not one publish")?;
    assert_eq!(reminded.parent_span_id, applied.span_context.span_id());
    assert_eq!(counted.parent_span_id, reminded.span_context.span_id());

    let traceparent = format!("00-{trace}-{}-01", request.span_context.span_id());
    assert_eq!(library.notes().await?, [traceparent.as_str(), "counted"]);
    assert_eq!(event.trace_id(), trace.to_string());
    assert_eq!(event.traceparent(), Some(traceparent.as_str()));
    Ok(())
}

async fn hang(_: Event<BookLent>) -> handover::Result {
    std::future::pending().await
}

#[tokio::test]
async fn span_of_a_handler_that_exceeds_its_time_limit_has_an_error() -> TestResult {
    let library = Library::open().await?;
    let (spans, _recording) = Spans::record();
    let retry = RetryPolicy::consumer(Duration::from_millis(1), Duration::from_millis(1), 1);
    let consumer = at_least_once(hang).timeout(Duration::from_millis(20)).retry(retry);
    let (outbox, running) =
        library.start(library.builder().layer(TraceLayer).consumer("hangs", consumer)).await?;
    library.lend(&outbox, BookLent::to("ann")).await?;
    running.drain().await?;
    running.stop(STOP_LIMIT).await?;
    let calls = spans.of("process library.hangs");
    assert!(!calls.is_empty());
    for call in calls {
        assert_eq!(attribute(&call, "error.type").as_deref(), Some("interrupted"));
        assert_eq!(call.status, Status::error("the time limit was exceeded, or the process stopped"));
    }
    Ok(())
}

#[tokio::test]
async fn trace_of_the_caller_comes_before_the_current_span() -> TestResult {
    let library = Library::open().await?;
    let (_, _recording) = Spans::record();
    let (outbox, running) = library.start(library.builder().event::<BookLent>()).await?;
    let enqueue = async |options| {
        let mut tx = library.pool.begin().await?;
        outbox.enqueue_with(&mut tx, BookLent::to("ann"), options).await?;
        TestResult::Ok(tx.commit().await?)
    };
    let of_caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    enqueue(Options::default()).await?;
    let given = Trace::new("of-the-caller");
    enqueue(Options::default().trace(given.clone().with_parent(of_caller)))
        .instrument(tracing::info_span!("request"))
        .await?;
    let request = tracing::info_span!("request");
    enqueue(Options::default().trace(given)).instrument(request.clone()).await?;
    // Without `tracing`.
    let span = SpanContext::new(
        TraceId::from_hex("4bf92f3577b34da6a3ce929d0e0e4736")?,
        SpanId::from_hex("00f067aa0ba902b7")?,
        TraceFlags::SAMPLED,
        true,
        TraceState::NONE,
    );
    enqueue(Options::default()).with_context(Context::new().with_remote_span_context(span)).await?;

    let events = running.enqueued::<BookLent>().await?;
    running.stop(STOP_LIMIT).await?;
    let traces: Vec<(&str, Option<&str>)> =
        events.iter().map(|event| (event.trace_id(), event.traceparent())).collect();
    let context = request.context();
    let span = context.span().span_context().clone();
    let of_request = format!("00-{}-{}-01", span.trace_id(), span.span_id());
    assert_eq!(
        traces,
        [
            (events[0].event_id(), None),
            ("of-the-caller", Some(of_caller)),
            ("of-the-caller", Some(of_request.as_str())),
            (
                "4bf92f3577b34da6a3ce929d0e0e4736",
                Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
            ),
        ]
    );
    Ok(())
}
