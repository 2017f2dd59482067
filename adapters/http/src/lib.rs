//! The HTTP edge: routes, tokens, the answer envelope.
//!
//! A request passes, from outside in: trace and log line, time limit, panic guard, route, token, rate limit,
//! idempotency key, signature of the gateway, body, use case. Whatever stops it on the way, the answer is the envelope of spec §4.
//!
//! **Invariant:** every error answer is `{"code","message","data","traceId"}` with `X-Trace-Id`, and a fault shows
//! nothing but its trace id.
//!
//! **Invariant:** nothing here decides: who may do what to an order is the domain's, whose order it is the store's.

mod auth;
mod body;
mod callback;
mod client;
mod context;
mod edge;
mod envelope;
mod fields;
mod language;
mod limit;
mod messages;
mod once;
mod path;
mod query;
mod refusal;
mod routes;
mod server;
mod trace;
pub mod views;

pub use auth::{Claims, TokenError, Tokens, WeakSecret};
pub use callback::{BadSecret, CallbackVerifier};
pub use client::{ForwardedHeader, Proxies};
pub use edge::{Edge, Limits, Problem, Readiness};
pub use limit::Admission;
pub use routes::{LIMITED_ROUTES, Render, router, router_with};
pub use server::serve;
