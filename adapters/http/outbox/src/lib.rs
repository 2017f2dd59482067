//! HTTP for services on the handover toolkit: server, layers, response envelope, tokens, and the operators' routes.
//!
//! - [`operator_router`] builds the operators' routes for any axum application; the application decides with a [`Guard`]
//!   who is an operator, and adds routes of its own ([`OperatorRoutes`]).
//! - [`serve`] runs a router on a listener, with timeouts for slow clients.
//! - [`Layers`] adds tracing, timeout, envelope, panic handler, concurrency limit and CORS to routes.
//! - Routes return [`response::Done`] or [`refusal::Refusal`]; [`envelope::Code`] lists the error codes, which an
//!   application extends.
//! - [`Tokens`] issues and verifies bearer tokens.
//! - [`openapi`] describes values and layers in an OpenAPI document.
//!
//! **Invariant:** every error response is `{"code","message","data","traceId"}` with `X-Trace-Id`; an internal error shows
//! only its trace id.

#![warn(missing_docs)]

mod auth;
mod bodies;
pub mod body;
mod client;
mod concurrency_limit;
mod cors;
mod early_refusal;
pub mod envelope;
pub mod fields;
pub mod header_names;
mod language;
mod layers;
mod limits;
pub mod messages;
mod metrics;
pub mod openapi;
mod operator_call;
mod operators;
pub mod path;
pub mod query;
mod readiness;
pub mod refusal;
pub mod response;
mod response_headers;
pub mod routes;
mod server;
mod slow_clients;
mod trace;
pub mod value_limits;
pub mod values;
pub mod views;
mod webhook_call;

pub use self::metrics::METRICS;
pub use auth::{Claims, KeySet, KeySetError, TokenError, TokenRules, Tokens, Unauthenticated, WeakSecret};
pub use client::{ForwardedHeader, Proxies};
pub use cors::WebOrigin;
pub use language::Language;
pub use layers::Layers;
pub use limits::Limits;
pub use operator_call::OperatorCall;
pub use operators::{Guard, OperatorRoutes, OperatorState, TokenGuard, operator_router};
pub use readiness::{CachedReadiness, Problem, Readiness};
pub use server::serve;
pub use trace::RequestId;
