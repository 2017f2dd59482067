//! The operators' routes of an application: those of the toolkit, and those that the application adds.
//!
//! **Invariant:** every route of the list is behind the [`Guard`].

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use handover_events::Trace;
use handover_outbox::Outbox;
use handover_outbox::operations::Operator;
use handover_outbox::ports::Clock;
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

/// Number of transactions that a route uses; it decides how an application stores the response to a request with an
/// idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// The transaction of the command can store the response.
    One,
    /// The response can be stored only after the command.
    Several,
}

/// The list of an application's operators' routes, with state `S`. Router, guard, OpenAPI document and the storage of
/// responses follow from it.
pub struct OperatorRoutes<S = ()> {
    groups: Vec<(Transactions, OpenApiRouter<S>)>,
}

impl<S: Clone + Send + Sync + 'static> Default for OperatorRoutes<S> {
    /// The toolkit's routes.
    fn default() -> OperatorRoutes<S> {
        OperatorRoutes { groups: vec![(Transactions::Several, routes::operations())] }
    }
}

impl<S: Clone + Send + Sync + 'static> OperatorRoutes<S> {
    /// Adds routes of the application.
    #[must_use]
    pub fn with(mut self, transactions: Transactions, routes: OpenApiRouter<S>) -> OperatorRoutes<S> {
        self.groups.push((transactions, routes));
        self
    }

    /// The routes as they describe themselves.
    pub fn described(self) -> OpenApiRouter<S> {
        let groups = self.groups.into_iter();
        groups.fold(OpenApiRouter::new(), |all, (_, routes)| all.merge(routes))
    }

    /// The descriptions of the routes.
    pub fn into_openapi(self) -> OpenApi {
        self.described().into_openapi()
    }

    /// Builds the router. `layer` adds the application's layers between the guard and the routes.
    pub fn into_router(
        self,
        outbox: Outbox,
        guard: Arc<dyn Guard>,
        layer: impl Fn(Transactions, Router<S>) -> Router<S>,
    ) -> Router<S> {
        let groups = self.groups.into_iter();
        let routes = groups.map(|(transactions, routes)| layer(transactions, Router::from(routes)));
        let all = routes.fold(Router::new(), Router::merge);
        all.route_layer(from_fn_with_state((outbox, guard), require_operator))
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

    /// Adds routes of the application.
    #[must_use]
    pub fn with_routes(self, routes: OpenApiRouter) -> OperatorState {
        OperatorState { routes: self.routes.with(Transactions::Several, routes), ..self }
    }
}

/// Builds the operators' routes for any axum application. Trace, timeout, envelope, panic handler and concurrency limit
/// are included; inside a router with [`Layers`] the outer trace applies.
pub fn operator_router(state: OperatorState) -> Router {
    let OperatorState { outbox, guard, routes, limits } = state;
    let layers = Layers::new(Arc::clone(&outbox.tx.random), limits);
    layers.with_concurrency_limit(routes.into_router(outbox, guard, |_, routes| routes))
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
