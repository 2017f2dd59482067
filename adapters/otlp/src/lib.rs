//! Traces for an OpenTelemetry collector, over OTLP/HTTP (OpenTelemetry Protocol 1.x, binary protobuf).
//!
//! **Invariant:** whatever the collector does, nobody waits for it: spans are queued, and dropped when the queue is full.

mod client;
mod fields;
mod layer;
mod span;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, IdGenerator, RandomIdGenerator, SpanProcessor};
use tokio::runtime::Handle;

use client::Client;
pub use layer::Hops;

/// How long one export may take.
const EXPORT_WITHIN: Duration = Duration::from_secs(5);

/// Why there can be no export.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// Nothing can be sent there.
    #[error("the collector must be http://host:port, such as http://127.0.0.1:4318, and not {0:?}")]
    Endpoint(String),
    /// The exporter refuses its settings.
    #[error("the exporter cannot be set up: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Sends spans to a collector, in batches, from a thread of its own.
pub struct Exporter {
    processor: Arc<BatchSpanProcessor>,
}

impl Exporter {
    /// Starts to send to the collector at `endpoint` (`http://host:port`), from this runtime.
    pub fn start(endpoint: &str, runtime: Handle) -> Result<Exporter, Unusable> {
        let base = endpoint.trim_end_matches('/');
        let authority =
            base.strip_prefix("http://").filter(|rest| !rest.is_empty() && !rest.contains(['@', ' ']));
        if authority.is_none() {
            return Err(Unusable::Endpoint(endpoint.to_owned()));
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{base}/v1/traces"))
            .with_timeout(EXPORT_WITHIN)
            .with_http_client(Client::new(runtime, EXPORT_WITHIN))
            .build()?;
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", "handover"),
                KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                KeyValue::new("service.instance.id", RandomIdGenerator::default().new_trace_id().to_string()),
            ])
            .build();
        processor.set_resource(&resource);
        Ok(Exporter { processor: Arc::new(processor) })
    }

    /// The layer that turns log lines into spans.
    pub fn layer(&self) -> Hops {
        Hops::new(Arc::clone(&self.processor))
    }

    /// Sends what is queued, and ends; waits for it, but not for long. Not to be called from a task of the runtime.
    pub fn stop(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(EXPORT_WITHIN) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}
