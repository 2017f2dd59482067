//! Export of spans to an OTLP collector.

use handover_otlp::{Exporter, ExporterError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing_subscriber::layer::SubscriberExt;

use crate::PATIENCE;

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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let exporter = Exporter::start(&endpoint, Handle::current()).unwrap();
    (listener, exporter)
}

fn stop(exporter: Exporter) -> tokio::task::JoinHandle<()> {
    tokio::task::spawn_blocking(move || exporter.stop())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exporter_sends_one_span_per_hop_with_trace_and_parent() {
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
        tracing::info!(
            hop = "publish",
            eventId = "e-1",
            eventType = "ORDER_CREATED",
            durationMs = 7,
            traceparent = own
        );
        tracing::info!(
            hop = "consume",
            eventId = "e-1",
            eventType = "ORDER_CREATED",
            consumer = "inventory",
            queue = "q",
            durationMs = 3,
            traceparent = own,
            traceId = "order-7"
        );
        // These spans are not exported: one is not sampled, one has no trace, and one has an invalid trace.
        let unsampled = format!("00-{TRACE}-{SPAN}-00");
        tracing::info!(hop = "publish", traceparent = unsampled);
        tracing::info!(hop = "publish", traceparent = None::<&str>);
        tracing::info!(hop = "publish", traceparent = "00-zz-zz-01");
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
    // Span kinds of OTLP: server 2, producer 4, consumer 5.
    assert_eq!(
        received,
        [
            ("handover", "POST /orders", 2, "b7ad6b7169203331".to_owned()),
            ("handover", "publish ORDER_CREATED", 4, SPAN.to_owned()),
            ("handover", "inventory ORDER_CREATED", 5, SPAN.to_owned()),
        ]
    );
    assert!(spans.iter().all(|(_, span)| hex(&span.trace_id) == TRACE));
    let [request, publish, consume] = [0, 1, 2].map(|n: usize| &spans[n].1);
    assert_eq!(hex(&request.span_id), SPAN, "the span must have the id that child spans refer to");
    assert_ne!(publish.span_id, consume.span_id);
    assert_eq!(request.end_time_unix_nano - request.start_time_unix_nano, 250_000_000);
    assert_eq!(request.status.as_ref().unwrap().code, 2, "the status code must be 2 (error)");
    assert_eq!(text(&request.attributes, "http.response.status_code").as_deref(), Some("503"));
    assert_eq!(text(&request.attributes, "handover.traceId").as_deref(), Some("order-7"));
    assert_eq!(text(&consume.attributes, "messaging.message.id").as_deref(), Some("e-1"));
    assert_eq!(text(&consume.attributes, "handover.consumer").as_deref(), Some("inventory"));
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
                tracing::info!(hop = "publish", eventType = "ORDER_CREATED", traceparent);
            }
        });
    });
    timeout(PATIENCE, logging).await.expect("logging must not wait for the collector").unwrap();
    timeout(PATIENCE, stop(exporter)).await.expect("stop must not wait for the collector").unwrap();
    drop(listener);
}

#[tokio::test]
async fn start_rejects_invalid_endpoint_and_names_it() {
    for bad in ["", "collector:4318", "https://collector", "http://", "http://user@host"] {
        let Err(error) = Exporter::start(bad, Handle::current()) else { panic!("{bad}") };
        assert!(matches!(&error, ExporterError::Endpoint(text) if text == bad), "{error}");
    }
}
