//! Redis: the rate limiter that processes share, behind the port of the application.
//!
//! **Invariant:** whatever Redis does, an answer is there within `redis.timeout`, and no process hands out more than it
//! would without Redis.

mod limiter;
mod link;
mod settings;

pub use limiter::RedisLimiter;
pub use link::{RedisAway, probe};
pub use settings::{InvalidSettings, RedisSettings};
