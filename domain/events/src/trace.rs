//! Trace context.

/// Trace context of a request. All events caused by the request belong to the same trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// `X-Trace-Id`: 1 to 64 characters of `[A-Za-z0-9_-]`.
    pub trace_id: String,
    /// The W3C `traceparent` of the caller; `None` if the event was not caused by a request.
    pub traceparent: Option<String>,
}
