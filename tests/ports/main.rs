//! Tests that need no server: the contract suite on the adapters that run in this process, the self-test of that suite,
//! the differential test, the decoders, the layers of the workspace, and the AsyncAPI document.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests outside any process of the application; a violated guarantee panics with the observed value"
)]

mod asyncapi;
mod contract;
mod decoders;
mod differential;
mod layering;
mod selftest;
