//! What needs nothing but this workspace: the contract of the ports on the adapters in this process, the tests of that suite, the
//! stores compared with each other, the decoders, the shape of the workspace, and the AsyncAPI document.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test outside any process of the application; a broken promise panics with what it saw"
)]

mod asyncapi;
mod contract;
mod decoders;
mod differential;
mod layering;
mod selftest;
