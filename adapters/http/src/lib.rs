//! The HTTP edge: routes, tokens, the answer envelope.
//!
//! A request passes, from outside in: origin, route, place (`shed`), trace and log line, time limit, panic guard, token,
//! rate limit, idempotency key, signature of the gateway, body, use case. Whatever stops it on the way, the answer is the
//! envelope of spec §4.
//!
//! **Invariant:** every error answer is `{"code","message","data","traceId"}` with `X-Trace-Id`, and a fault shows
//! nothing but its trace id.
//!
//! **Invariant:** nothing here decides: who may do what to an order is the domain's, whose order it is the store's.

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
