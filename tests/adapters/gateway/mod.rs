//! The payment gateway: over HTTP, and the sandbox.

mod endpoint;
mod http;
mod sandbox;
mod server;
