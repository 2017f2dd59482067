//! The operators' routes of an application: those of the toolkit, and those that the application adds.
//!
//! **Invariant:** every route of the list is behind the [`Guard`].

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use handover_events::Trace;
use handover_outbox::Outbox;
use handover_outbox::operations::Operator;
use handover_outbox::ports::Clock;
use handover_outbox::webhooks::Webhooks;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::auth::Tokens;
use crate::envelope::Code;
use crate::layers::Layers;
use crate::limits::Limits;
use crate::operator_call::OperatorCall;
use crate::refusal::Refusal;
use crate::routes;

/// Decides who is an operator. A closure is a guard, too.
#[async_trait]
pub trait Guard: Send + Sync {
    /// Returns the operator who sent a request with this head, or refuses the request. `trace` is the trace of the
    /// request.
    async fn operator(&self, head: &Parts, trace: Trace) -> Result<Operator, Refusal>;
}

#[async_trait]
impl<F: Fn(&Parts, Trace) -> Result<Operator, Refusal> + Send + Sync> Guard for F {
    async fn operator(&self, head: &Parts, trace: Trace) -> Result<Operator, Refusal> {
        self(head, trace)
    }
}

/// Accepts bearer tokens with the role `operator` or `platform`.
pub struct TokenGuard {
    /// Verifies the tokens.
    pub tokens: Tokens,
    /// Clock for the validity of the tokens.
    pub clock: Arc<dyn Clock>,
}

#[async_trait]
impl Guard for TokenGuard {
    async fn operator(&self, head: &Parts, trace: Trace) -> Result<Operator, Refusal> {
        let claims = self.tokens.authenticate(&head.headers, self.clock.now());
        let claims = claims.map_err(|reason| Refusal::from(&reason))?;
        claims.operator(trace).ok_or_else(|| Refusal::of(Code::NOT_ALLOWED))
    }
}

/// The operators' routes, with state `S`: those of the toolkit and those of the application. Router, guard and OpenAPI
/// document follow from it.
pub struct OperatorRoutes<S = ()> {
    toolkit: OpenApiRouter<S>,
    application: OpenApiRouter<S>,
}

impl<S: Clone + Send + Sync + 'static> Default for OperatorRoutes<S> {
    /// The toolkit's routes.
    fn default() -> OperatorRoutes<S> {
        OperatorRoutes { toolkit: routes::operations(), application: OpenApiRouter::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> OperatorRoutes<S> {
    /// Only the routes of webhooks.
    pub fn of_webhooks(webhooks: Webhooks) -> OperatorRoutes<S> {
        let toolkit = routes::webhooks().layer(Extension(webhooks));
        OperatorRoutes { toolkit, application: OpenApiRouter::new() }
    }

    /// Adds the routes of webhooks.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Webhooks) -> OperatorRoutes<S> {
        let of_webhooks = OperatorRoutes::of_webhooks(webhooks);
        OperatorRoutes { toolkit: self.toolkit.merge(of_webhooks.toolkit), ..self }
    }

    /// Adds routes of the application.
    #[must_use]
    pub fn with(self, routes: OpenApiRouter<S>) -> OperatorRoutes<S> {
        OperatorRoutes { application: self.application.merge(routes), ..self }
    }

    /// The routes as they describe themselves.
    pub fn described(self) -> OpenApiRouter<S> {
        self.toolkit.merge(self.application)
    }

    /// The descriptions of the routes.
    pub fn into_openapi(self) -> OpenApi {
        self.described().into_openapi()
    }

    /// Builds the router. `layer` adds the application's layers between the guard and the routes; its arguments are the
    /// toolkit's routes, each of which uses more than one transaction, and the application's routes.
    pub fn into_router(
        self,
        outbox: Outbox,
        guard: Arc<dyn Guard>,
        layer: impl FnOnce(Router<S>, Router<S>) -> Router<S>,
    ) -> Router<S> {
        let routes = layer(Router::from(self.toolkit), Router::from(self.application));
        routes.route_layer(from_fn_with_state((outbox, guard), require_operator))
    }
}

/// What [`operator_router`] needs.
pub struct OperatorState {
    /// The outbox.
    pub outbox: Outbox,
    /// Decides who is an operator.
    pub guard: Arc<dyn Guard>,
    /// The routes.
    pub routes: OperatorRoutes,
    /// Limits on requests.
    pub limits: Limits,
}

impl OperatorState {
    /// The toolkit's routes with the default limits.
    pub fn new(outbox: Outbox, guard: impl Guard + 'static) -> OperatorState {
        let routes = OperatorRoutes::default();
        OperatorState { outbox, guard: Arc::new(guard), routes, limits: Limits::default() }
    }

    /// Adds the routes of webhooks.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Webhooks) -> OperatorState {
        OperatorState { routes: self.routes.with_webhooks(webhooks), ..self }
    }

    /// Adds routes of the application.
    #[must_use]
    pub fn with_routes(self, routes: OpenApiRouter) -> OperatorState {
        OperatorState { routes: self.routes.with(routes), ..self }
    }
}

/// Builds the operators' routes for any axum application. Trace, timeout, envelope, panic handler and concurrency limit
/// are included; inside a router with [`Layers`] the outer trace applies.
pub fn operator_router(state: OperatorState) -> Router {
    let OperatorState { outbox, guard, routes, limits } = state;
    let layers = Layers::new(Arc::clone(outbox.random()), limits);
    layers.with_concurrency_limit(routes.into_router(outbox, guard, Router::merge))
}

/// Middleware of the operators' routes. The check runs outside of the application's layers, so that a stored response is
/// not replayed to a caller who is no operator any more.
async fn require_operator(
    State((outbox, guard)): State<(Outbox, Arc<dyn Guard>)>,
    request: Request,
    next: Next,
) -> Response {
    let Some(trace) = request.extensions().get::<Trace>().cloned() else {
        return Refusal::internal(&"the route has no trace layer").into_response();
    };
    let (mut head, body) = request.into_parts();
    match guard.operator(&head, trace).await {
        Ok(operator) => {
            head.extensions.insert(OperatorCall { outbox, operator });
            next.run(Request::from_parts(head, body)).await
        }
        Err(refusal) => refusal.into_response(),
    }
}
