//! Exports traces to an OpenTelemetry collector over OTLP/HTTP (OpenTelemetry Protocol 1.x, binary protobuf).
//!
//! **Invariant:** the application never waits for the collector: spans are queued, and dropped when the queue is full.

#![warn(missing_docs)]

mod client;
mod fields;
mod layer;
mod messaging;
mod span;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, IdGenerator, RandomIdGenerator, SpanProcessor};
use tokio::runtime::Handle;

use client::Client;
pub use layer::{HopLayer, hops};
pub use messaging::SpanContexts;

/// Timeout of one export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why the exporter cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ExporterError {
    /// The endpoint is not `http://host:port`.
    #[error("the collector URL must be http://host:port, such as http://127.0.0.1:4318, not {0:?}")]
    Endpoint(String),
    /// The OpenTelemetry exporter rejected its settings.
    #[error("cannot start the exporter: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Sends spans to a collector in batches, from a dedicated thread.
pub struct Exporter {
    processor: Arc<BatchSpanProcessor>,
}

impl Exporter {
    /// Starts exporting to the collector at `endpoint` (`http://host:port`). HTTP requests run on `runtime`.
    pub fn start(endpoint: &str, runtime: Handle) -> Result<Exporter, ExporterError> {
        let base = endpoint.trim_end_matches('/');
        let authority =
            base.strip_prefix("http://").filter(|rest| !rest.is_empty() && !rest.contains(['@', ' ']));
        if authority.is_none() {
            return Err(ExporterError::Endpoint(endpoint.to_owned()));
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{base}/v1/traces"))
            .with_timeout(EXPORT_TIMEOUT)
            .with_http_client(Client::new(runtime, EXPORT_TIMEOUT))
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

    /// The layer that converts log events to spans.
    pub fn layer(&self) -> HopLayer {
        HopLayer::new(Arc::clone(&self.processor))
    }

    /// Sends the queued spans and stops; waits at most 5 s. MUST NOT be called from a task of the runtime, because it blocks.
    pub fn stop(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(EXPORT_TIMEOUT) {
            tracing::debug!(%error, "telemetry: the last spans were not exported");
        }
    }
}
