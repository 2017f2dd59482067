//! Tests of the HTTP API with the in-memory adapters.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod access;
mod account;
mod archive;
mod asset_grants;
mod assets;
mod client;
mod columns;
mod concurrency_limit;
mod dead_letters;
mod envelopes;
mod gateway_reports;
mod idempotency;
mod idempotency_afterwards;
mod inputs;
mod invoices;
mod logs;
mod openapi;
mod openapi_page;
mod openapi_responses;
mod openapi_routes;
mod operations;
mod operator_orders;
mod operator_queries;
mod operator_refunds;
mod orders;
mod payments;
mod privacy;
mod products;
mod rate_limit;
mod reconciliations;
mod redrives;
mod refunds;
mod response_headers;
mod server;
mod split_routers;
mod timelines;
mod tokens;
mod traces;
mod webhook_transport;
mod webhooks;
mod world;
