//! Operators' routes for an axum application: events in the outbox, dead letters, queues, audit log.
//!
//! ```
//! use axum::Router;
//! use axum::http::request::Parts;
//! use handover::http::Named;
//! use handover::{Backend, Running};
//!
//! fn with_operators<B: Backend>(service: Router, running: &Running<B>) -> Router {
//!     let operator = |head: &Parts| Some(head.headers.get("x-operator")?.to_str().ok()?.to_owned());
//!     service.nest("/admin/outbox", running.operator_router(Named(operator)))
//! }
//! ```

use async_trait::async_trait;
use axum::Router;
use axum::http::request::Parts;
use handover_events::{TenantId, Trace};
use handover_http::envelope::Code;
use handover_http::{OperatorState, operator_router};

use crate::backend::Backend;
use crate::running::Running;

/// The version of axum whose routers and requests this module uses.
pub use axum;
pub use handover_http::Guard;
pub use handover_http::refusal::Refusal;
pub use handover_outbox::operations::Operator;

impl<B: Backend> Running<B> {
    /// The operators' routes, to be nested in the router of the service. `guard` decides who is an operator: [`Named`], or
    /// an own [`Guard`].
    ///
    /// The routes have the layers that they need: trace, time limit, panic handler, limit of concurrent requests.
    pub fn operator_router(&self, guard: impl Guard + 'static) -> Router {
        operator_router(OperatorState::new(self.services().clone(), guard))
    }
}

/// A guard for a service that authenticates its operators itself: a function that returns the name of the operator who sent
/// a request with this head, for the audit log. `None` refuses the request. The operator sees all tenants and personal
/// data.
pub struct Named<F>(pub F);

#[async_trait]
impl<F: Fn(&Parts) -> Option<String> + Send + Sync> Guard for Named<F> {
    async fn operator(&self, head: &Parts, trace: Trace) -> Result<Operator, Refusal> {
        let name = (self.0)(head).ok_or_else(|| Refusal::of(Code::NOT_AUTHENTICATED))?;
        Ok(Operator {
            name,
            tenant: TenantId::DEFAULT,
            sees_all_tenants: true,
            sees_personal_data: true,
            trace,
        })
    }
}
