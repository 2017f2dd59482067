//! HTTP API of the marketplace: routes, bodies, views and messages on the layers of `handover_http`.
//!
//! A request passes these layers, outermost first: CORS, routing, concurrency limit, trace and log line, timeout,
//! panic handler, authentication, rate limit, idempotency key, signature of the gateway, body, use case. Each layer that
//! rejects a request does so in the response envelope.
//!
//! **Invariant:** every error response is `{"code","message","data","traceId"}` with `X-Trace-Id`; an internal error shows
//! only its trace id.
//!
//! **Invariant:** this crate makes no business decision: the domain decides which actions on an order are allowed, and the
//! store's queries select by owner and tenant.

mod bodies;
mod body;
mod callback;
mod callback_verifier;
mod caller;
mod command;
mod context;
mod edge;
mod idempotency;
mod messages;
mod openapi;
mod path;
mod query;
mod rate_limit;
mod refusal;
mod routes;
mod value_limits;
mod values;
pub mod views;

pub use callback_verifier::{CallbackVerifier, InvalidSecret};
pub use edge::Edge;
pub use rate_limit::RateLimits;
pub use routes::{LIMITED_ROUTES, openapi, router, router_with, split_routers};
