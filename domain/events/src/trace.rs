//! The trace of a request.

/// The trace of a request: every event that follows from the request is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// `X-Trace-Id`: 1 to 64 of `[A-Za-z0-9_-]`.
    pub trace_id: String,
    /// The W3C `traceparent` of the caller; `None` without a caller.
    pub traceparent: Option<String>,
}
