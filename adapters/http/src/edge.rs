//! What the edge works with, and its limits.

use std::time::Duration;

use marketplace::App;

use crate::{Admission, CallbackVerifier, Readiness, Tokens, WebOrigin};

/// What every route works with.
pub struct Edge {
    /// The application.
    pub app: App,
    /// Issues and verifies bearer tokens.
    pub tokens: Tokens,
    /// Verifies the gateway's signature.
    pub callbacks: CallbackVerifier,
    /// Whether this process can serve now.
    pub readiness: Box<dyn Readiness>,
    /// How often a client may ask.
    pub admission: Admission,
    /// What a client may ask of us.
    pub limits: Limits,
}

/// What a client may ask of us. The defaults are those of spec §4.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The greatest body, in bytes.
    pub body_bytes: usize,
    /// How long a request may take from its last header to its answer.
    pub request: Duration,
    /// How long the headers may take to arrive. Below the ten seconds that are promised, so that the last of thousands is over
    /// in time as well.
    pub header_read: Duration,
    /// How long a connection may be idle between requests. Longer than most proxies keep one (60 s): whoever closes first must
    /// not be the server, which may do so while the proxy sends.
    pub idle: Duration,
    /// How long a body may take to arrive.
    pub body_read: Duration,
    /// How long a client may take nothing of what it is answered.
    pub answer_taken: Duration,
    /// The greatest head of a request, in bytes.
    pub header_bytes: usize,
    /// Connections at a time; more wait in the listener's backlog.
    pub connections: u32,
    /// Requests worked on at a time; more are turned away. Health is asked for beside them.
    pub concurrent_requests: u32,
    /// Origins whose pages may call us.
    pub cors_origins: Vec<WebOrigin>,
    /// How long requests in flight may go on once the process is asked to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 64 * 1024,
            request: Duration::from_secs(30),
            header_read: Duration::from_secs(8),
            idle: Duration::from_secs(75),
            body_read: Duration::from_secs(10),
            answer_taken: Duration::from_secs(10),
            header_bytes: 32 * 1024,
            connections: 4096,
            concurrent_requests: 512,
            cors_origins: Vec::new(),
            drain: Duration::from_secs(10),
        }
    }
}
