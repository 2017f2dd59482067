//! The payment gateway: HTTP and sandbox.

mod endpoint;
mod http;
mod sandbox;
mod server;
