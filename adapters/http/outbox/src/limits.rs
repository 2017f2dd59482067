//! Limits on requests and connections. Limits of values in requests are in `value_limits.rs`.

use std::time::Duration;

use crate::cors::WebOrigin;

/// Limits on requests and connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum size of a body, in bytes.
    pub body_bytes: usize,
    /// Maximum time from the last header of a request to its response.
    pub request: Duration,
    /// Maximum time for the headers of a request to arrive. The default leaves a margin, so that a connection is closed
    /// within 10 s even with thousands of connections.
    pub header_read: Duration,
    /// Maximum idle time of a connection between requests. Longer than the keep-alive of most proxies (60 s): if the server
    /// closes first, the proxy may be sending a request at that moment.
    pub idle: Duration,
    /// Maximum time for a body to arrive.
    pub body_read: Duration,
    /// Maximum time during which a client reads nothing of a response.
    pub response_write: Duration,
    /// Maximum size of a request head, in bytes.
    pub header_bytes: usize,
    /// Maximum number of open connections; more wait in the listener's backlog.
    pub connections: u32,
    /// Maximum number of requests processed concurrently; more are rejected. Health checks are not counted.
    pub concurrent_requests: u32,
    /// Origins allowed by CORS.
    pub cors_origins: Vec<WebOrigin>,
    /// Maximum time for requests in flight to finish at shutdown.
    pub drain: Duration,
}

/// Limits on reading a body; a request extension, which [`crate::Layers`] adds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    pub(crate) bytes: usize,
    pub(crate) time: Duration,
}

impl From<&Limits> for BodyLimits {
    fn from(limits: &Limits) -> BodyLimits {
        BodyLimits { bytes: limits.body_bytes, time: limits.body_read }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 64 * 1024,
            request: Duration::from_secs(30),
            header_read: Duration::from_secs(8),
            idle: Duration::from_secs(75),
            body_read: Duration::from_secs(10),
            response_write: Duration::from_secs(10),
            header_bytes: 32 * 1024,
            connections: 4096,
            concurrent_requests: 512,
            cors_origins: Vec::new(),
            drain: Duration::from_secs(10),
        }
    }
}
