//! Redis: the rate limiter shared by all processes, and the idempotency keys of requests that need no transaction,
//! behind the ports of the application.
//!
//! **Invariant:** every call of a port returns within `redis.timeout` in any state of Redis. No process accepts more
//! requests than it would without Redis, and a key is claimed only if Redis confirms the claim.

mod call;
mod keys;
mod limiter;
mod link;
mod scripts;
mod settings;
mod stored_request;

pub use call::RedisUnavailable;
pub use keys::RedisKeys;
pub use limiter::RedisLimiter;
pub use link::{RedisConnection, RedisUse, probe};
pub use settings::{InvalidSettings, RedisSettings};
