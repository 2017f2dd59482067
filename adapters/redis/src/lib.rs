//! Redis: the rate limiter that processes share, and the idempotency keys of what needs no transaction, behind the ports of
//! the application.
//!
//! **Invariant:** whatever Redis does, an answer is there within `redis.timeout`; no process hands out more than it would
//! without Redis, and no key is claimed that Redis did not give.

mod kept;
mod keys;
mod limiter;
mod link;
mod settings;

pub use keys::RedisKeys;
pub use limiter::RedisLimiter;
pub use link::{Link, RedisAway, Use, probe};
pub use settings::{InvalidSettings, RedisSettings};
