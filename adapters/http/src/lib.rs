//! HTTP API of the marketplace: routes, authentication, response envelope, OpenAPI document, server.
//!
//! A request passes these layers, outermost first: CORS, routing, concurrency limit (`concurrency_limit`), trace and log line, timeout,
//! panic handler, authentication, rate limit, idempotency key, signature of the gateway, body, use case. Each layer that
//! rejects a request does so in the response envelope.
//!
//! **Invariant:** every error response is `{"code","message","data","traceId"}` with `X-Trace-Id`; an internal error shows
//! only its trace id.
//!
//! **Invariant:** this crate makes no business decision: the domain decides which actions on an order are allowed, and the
//! store's queries select by owner and tenant.

mod auth;
mod bodies;
mod body;
mod callback;
mod client;
mod concurrency_limit;
mod context;
mod cors;
mod early_refusal;
mod edge;
mod envelope;
mod fields;
mod header_names;
mod idempotency;
mod language;
mod limits;
mod messages;
mod openapi;
mod path;
mod query;
mod rate_limit;
mod readiness;
mod refusal;
mod response;
mod response_headers;
mod routes;
mod server;
mod slow_clients;
mod trace;
mod value_limits;
mod values;
pub mod views;

pub use auth::{Claims, KeySet, KeySetError, TokenError, TokenRules, Tokens, WeakSecret};
pub use callback::{CallbackVerifier, InvalidSecret};
pub use client::{ForwardedHeader, Proxies};
pub use cors::WebOrigin;
pub use edge::Edge;
pub use limits::Limits;
pub use rate_limit::RateLimits;
pub use readiness::{CachedReadiness, Problem, Readiness};
pub use routes::{LIMITED_ROUTES, Render, openapi, router, router_with, split_routers};
pub use server::serve;
