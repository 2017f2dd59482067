//! Redis goes away, forgets, stands still and talks nonsense while requests are limited by it: they go on, and no process
//! lets more in than it would without Redis.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test outside any process of the application, on real time"
)]

mod limiter;
mod load;
mod program;
