//! Trace context.

/// Trace context of a request. All events caused by the request belong to the same trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// `X-Trace-Id`: 1 to 64 characters of `[A-Za-z0-9_-]`.
    pub trace_id: String,
    /// The W3C `traceparent` of the caller; `None` if the event was not caused by a request.
    pub traceparent: Option<String>,
}

impl Trace {
    /// A trace with this id, and without a parent.
    pub fn new(trace_id: impl Into<String>) -> Trace {
        Trace { trace_id: trace_id.into(), traceparent: None }
    }

    /// Sets the W3C `traceparent` of the caller.
    #[must_use]
    pub fn with_parent(self, traceparent: impl Into<String>) -> Trace {
        Trace { traceparent: Some(traceparent.into()), ..self }
    }
}
