//! HTTP API of the marketplace: routes, authentication, response envelope, OpenAPI document, server.
//!
//! A request passes these layers, outermost first: CORS, routing, concurrency limit (`shed`), trace and log line, timeout,
//! panic handler, authentication, rate limit, idempotency key, signature of the gateway, body, use case. Each layer that
//! rejects a request does so in the envelope of spec §4.
//!
//! **Invariant:** every error response is `{"code","message","data","traceId"}` with `X-Trace-Id`; an internal error shows
//! only its trace id.
//!
//! **Invariant:** this crate makes no business decision: the domain decides which actions on an order are allowed, and the
//! store's queries select by owner and tenant.

mod auth;
pub mod bodies;
mod body;
mod callback;
mod client;
mod context;
mod cors;
mod document;
mod edge;
mod envelope;
mod fields;
mod language;
mod limit;
mod messages;
mod once;
mod path;
mod query;
mod readiness;
mod refusal;
mod routes;
mod server;
mod shed;
mod shut;
mod stall;
mod trace;
pub mod views;

pub use auth::{BadKeys, Claims, KeySet, TokenError, TokenRules, Tokens, WeakSecret};
pub use callback::{BadSecret, CallbackVerifier};
pub use client::{ForwardedHeader, Proxies};
pub use cors::WebOrigin;
pub use edge::{Edge, Limits};
pub use limit::Admission;
pub use readiness::{Problem, Readiness, SharedReadiness};
pub use routes::{LIMITED_ROUTES, Render, apart, openapi, router, router_with};
pub use server::serve;
