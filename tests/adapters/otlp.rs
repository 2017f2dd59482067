//! Export of spans to an OTLP collector.

use std::sync::Arc;

use async_trait::async_trait;
use handover_events::{AggregateRef, TenantId};
use handover_memory::{MemoryBroker, MemoryStore, SeededRandom, VirtualClock};
use handover_otlp::{Exporter, ExporterError, SpanContexts, hops};
use handover_outbox::consumers::{Applied, Bound, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use handover_outbox::{
    ConsumerSettings, EventSpec, Outbox, RelaySettings, Tasks, Transactor, WakeupNotifier, runtime,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use crate::{PATIENCE, enable_tracing};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Receives one export. Returns the head of the request, and the spans with their service names.
async fn receive_export(listener: &TcpListener, status: &str) -> (String, Vec<(String, Span)>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let (head, body) = loop {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the exporter closed the connection");
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.parse().unwrap();
        if bytes.len() >= end + 4 + length {
            break (head, bytes[end + 4..end + 4 + length].to_vec());
        }
    };
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(response.as_bytes()).await.unwrap();
    let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let service = text(&resource.resource.unwrap().attributes, "service.name").unwrap();
        for scope in resource.scope_spans {
            spans.extend(scope.spans.into_iter().map(|span| (service.clone(), span)));
        }
    }
    (head, spans)
}

fn text(attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|it| it.key == name)?;
    let value = found.value.as_ref()?.value.as_ref()?;
    if let Value::IntValue(number) = value {
        return Some(number.to_string());
    }
    let Value::StringValue(text) = value else { panic!("{value:?}") };
    Some(text.clone())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn exporter() -> (TcpListener, Exporter) {
    enable_tracing();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let exporter = Exporter::start(&endpoint, Handle::current()).unwrap();
    (listener, exporter)
}

fn stop(exporter: Exporter) -> tokio::task::JoinHandle<()> {
    tokio::task::spawn_blocking(move || exporter.stop())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exporter_sends_the_span_of_a_request_with_trace_and_parent() {
    let (listener, exporter) = exporter().await;
    let log = tracing_subscriber::registry().with(exporter.layer());
    let own = format!("00-{TRACE}-{SPAN}-01");
    tracing::subscriber::with_default(log, || {
        let request = tracing::info_span!("request", traceId = "order-7", method = "POST", route = "/orders");
        request.in_scope(|| {
            tracing::info!("an event without a hop");
            let parent = "b7ad6b7169203331";
            tracing::info!(
                hop = "request",
                status = 503,
                durationMs = 250,
                traceparent = own,
                parent,
                "request: completed"
            );
        });
        // These spans are not exported: one is not sampled, one has no trace, and one has an invalid trace.
        let unsampled = format!("00-{TRACE}-{SPAN}-00");
        tracing::info!(hop = "request", traceparent = unsampled);
        tracing::info!(hop = "request", traceparent = None::<&str>);
        tracing::info!(hop = "request", traceparent = "00-zz-zz-01");
    });
    let stopped = stop(exporter);
    let (head, spans) = receive_export(&listener, "200 OK").await;
    stopped.await.unwrap();
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let received: Vec<(&str, &str, i32, String)> = spans
        .iter()
        .map(|(service, span)| (service.as_str(), span.name.as_str(), span.kind, hex(&span.parent_span_id)))
        .collect();
    // Span kind of OTLP: server 2.
    assert_eq!(received, [("handover", "POST /orders", 2, "b7ad6b7169203331".to_owned())]);
    assert!(spans.iter().all(|(_, span)| hex(&span.trace_id) == TRACE));
    let request = &spans[0].1;
    assert_eq!(hex(&request.span_id), SPAN, "the span must have the id that child spans refer to");
    assert_eq!(request.end_time_unix_nano - request.start_time_unix_nano, 250_000_000);
    assert_eq!(request.status.as_ref().unwrap().code, 2, "the status code must be 2 (error)");
    assert_eq!(text(&request.attributes, "http.response.status_code").as_deref(), Some("503"));
    assert_eq!(text(&request.attributes, "handover.traceId").as_deref(), Some("order-7"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logging_and_stop_do_not_block_when_collector_does_not_respond() {
    let (listener, exporter) = exporter().await;
    let log = tracing_subscriber::registry().with(exporter.layer());
    // The queue holds 2,048 spans and one export 512. If logging waited for every export until its timeout of 5 s,
    // logging would take 100 s.
    let logging = tokio::task::spawn_blocking(|| {
        tracing::subscriber::with_default(log, || {
            for n in 0..10_240 {
                let traceparent = format!("00-{TRACE}-{:016x}-01", n + 1);
                tracing::info!(hop = "request", method = "GET", route = "/orders", traceparent);
            }
        });
    });
    timeout(PATIENCE, logging).await.expect("logging must not wait for the collector").unwrap();
    timeout(PATIENCE, stop(exporter)).await.expect("stop must not wait for the collector").unwrap();
    drop(listener);
}

/// Applies every event.
struct Sink;

#[async_trait]
impl Handler<dyn UnitOfWork> for Sink {
    fn name(&self) -> &str {
        "sink"
    }

    fn event_types(&self) -> Vec<&str> {
        vec!["SENT"]
    }

    async fn apply(
        &self,
        _: &mut (dyn UnitOfWork + 'static),
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        Ok(events.iter().map(|_| Applied::result("done")).collect())
    }
}

/// A process on adapters in memory whose relay and consumer open spans.
struct Process {
    outbox: Outbox,
    store: MemoryStore,
    wake: WakeupNotifier,
    consumer: Bound,
}

impl Process {
    async fn new(system: &'static str) -> Process {
        let clock = Arc::new(VirtualClock::new("2026-02-04T10:30:00Z".parse().unwrap()));
        let wake = WakeupNotifier::default();
        let store = MemoryStore::new(clock.clone(), wake.clone());
        let random = Arc::new(SeededRandom::new(7));
        let tx = Transactor::new(
            outbox_of(&(Arc::new(store.clone()) as Arc<_>)),
            clock.clone(),
            random,
            Tasks::default(),
        );
        let subscriber = Subscriber::<dyn UnitOfWork>::new("box.sink", Arc::new(Sink));
        let consumer = subscriber.bind(tx.store());
        let outbox =
            Outbox::new(tx, Arc::new(MemoryBroker::new(clock)), Topology::new("box", "box.dead", "dead"))
                .with_event(EventSpec::new("SENT", "box.sent"))
                .with_consumer(&subscriber, &["box.sent"])
                .with_spans(Arc::new(SpanContexts), system);
        runtime::prepare(&outbox).await.unwrap();
        runtime::start_relay(&outbox, &wake, &RelaySettings::default());
        Process { outbox, store, wake, consumer }
    }

    fn start_consumer(&self) {
        runtime::start_consumers(&self.outbox, vec![self.consumer.clone()], &ConsumerSettings::default());
    }

    /// Appends an event whose request had this span.
    async fn append(&self, id: &str, aggregate: i64, span: &str) {
        let event = NewEvent {
            event_id: id.parse().unwrap(),
            event_type: "SENT".to_owned(),
            aggregate: AggregateRef {
                tenant: TenantId::DEFAULT,
                kind: "box".to_owned(),
                id: aggregate.into(),
            },
            aggregate_seq: Some(1),
            payload: "{}".to_owned(),
            metadata: EventMetadata {
                traceparent: Some(format!("00-{TRACE}-{span}-01")),
                ..EventMetadata::default()
            },
            occurred_at: self.outbox.now(),
            max_retry_count: 0,
            routing_key: None,
            idle_consumers: IdleConsumers::default(),
            due: None,
        };
        let mut unit = self.outbox.tx.begin().await.unwrap();
        unit.outbox().append(&[event]).await.unwrap();
        unit.commit().await.unwrap();
        self.wake.notify(handover_events::Partition::all().collect());
    }

    async fn messages(&self) -> (u64, u64) {
        let queues = self.outbox.broker.queues().await.unwrap();
        let queue = queues.iter().find(|queue| queue.name == "box.sink").unwrap();
        (queue.ready, queue.unacked)
    }

    async fn applied(&self, id: &str) -> bool {
        let _ = &self.store;
        let mut view = self.outbox.view().await.unwrap();
        view.outbox_view().consumption("sink", &id.parse().unwrap()).await.unwrap().is_some()
    }
}

async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    timeout(PATIENCE, async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the condition must be met");
}

#[tokio::test]
async fn publish_span_is_parent_and_link_of_process_span_whatever_is_logged() {
    let (listener, exporter) = exporter().await;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::sink).with_filter(LevelFilter::OFF);
    let log = tracing_subscriber::registry().with(lines).with(exporter.layer().with_filter(hops()));
    let guard = tracing::subscriber::set_default(log);
    let process = Process::new("rabbitmq").await;
    let requests = ["00000000000000a1", "00000000000000a2", "00000000000000a3"];
    process.append("e-1", 1, requests[0]).await;
    process.append("e-2", 2, requests[1]).await;
    eventually(async || process.messages().await.0 == 2).await;
    process.start_consumer();
    eventually(async || process.messages().await == (0, 0)).await;
    process.append("e-3", 3, requests[2]).await;
    eventually(async || process.applied("e-3").await && process.messages().await == (0, 0)).await;
    process.outbox.tasks().begin_stop();
    let stopped = stop(exporter);
    let (_, exported) = receive_export(&listener, "200 OK").await;
    stopped.await.unwrap();
    drop(guard);

    let named = |name: &str| {
        let spans = exported.iter().map(|(_, span)| span).filter(|span| span.name == name);
        spans.collect::<Vec<_>>()
    };
    let published = named("publish box:box.sent");
    let attribute = |span: &Span, name: &str| text(&span.attributes, name);
    assert_eq!(published.len(), 3, "{exported:#?}");
    for (span, request) in published.iter().zip(requests) {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), request.to_owned()));
        assert_eq!((span.kind, span.links.len()), (4, 0), "a producer");
        for (name, value) in [
            ("messaging.system", "rabbitmq"),
            ("messaging.operation.name", "publish"),
            ("messaging.operation.type", "send"),
            ("messaging.destination.name", "box:box.sent"),
        ] {
            assert_eq!(attribute(span, name).as_deref(), Some(value), "{name}");
        }
    }
    let processed = named("process box:box.sent:box.sink");
    let [group, single] = &processed[..] else { panic!("{processed:#?}") };
    let links = |span: &Span| span.links.iter().map(|link| hex(&link.span_id)).collect::<Vec<_>>();
    let ids: Vec<String> = published.iter().map(|span| hex(&span.span_id)).collect();
    assert_eq!(links(group), ids[..2], "a span of a group links all its events");
    assert_eq!(attribute(group, "messaging.batch.message_count").as_deref(), Some("2"));
    assert_eq!(attribute(group, "messaging.message.id"), None);
    assert_eq!((links(single), hex(&single.parent_span_id)), (vec![ids[2].clone()], ids[2].clone()));
    assert_eq!(hex(&single.trace_id), TRACE);
    for (name, value) in [
        ("messaging.system", "rabbitmq"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "box:box.sent:box.sink"),
        ("messaging.consumer.group.name", "sink"),
        ("messaging.message.id", "e-3"),
    ] {
        assert_eq!(attribute(single, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(single.kind, 5, "a consumer");
}

#[tokio::test]
async fn start_rejects_invalid_endpoint_and_names_it() {
    for bad in ["", "collector:4318", "https://collector", "http://", "http://user@host"] {
        let Err(error) = Exporter::start(bad, Handle::current()) else { panic!("{bad}") };
        assert!(matches!(&error, ExporterError::Endpoint(text) if text == bad), "{error}");
    }
}
