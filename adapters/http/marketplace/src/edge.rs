//! Dependencies of the HTTP API.

use std::sync::Arc;

use handover_http::{Limits, Readiness, Tokens};
use handover_outbox::webhooks::Webhooks;
use marketplace::App;

use crate::callback_verifier::CallbackVerifier;
use crate::rate_limit::RateLimits;

/// Dependencies of all routes.
pub struct Edge {
    /// The application.
    pub app: App,
    /// Issues and verifies bearer tokens.
    pub tokens: Tokens,
    /// Verifies the signatures of the payment gateway's callbacks.
    pub callbacks: CallbackVerifier,
    /// Whether a callback must name its payment or refund by reference; otherwise the id alone is accepted.
    pub requires_reference: bool,
    /// Readiness check of this process.
    pub readiness: Arc<dyn Readiness>,
    /// Rate limits.
    pub admission: RateLimits,
    /// Limits on requests and connections.
    pub limits: Limits,
    /// Webhooks; `None`: the process has no key for their secrets, and their routes do not exist.
    pub webhooks: Option<Webhooks>,
}
