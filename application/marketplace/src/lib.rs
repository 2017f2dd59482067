//! The marketplace: use cases, what its consumers do with events, and what runs by the clock. It announces and consumes by the
//! outbox (`handover_outbox`), which knows nothing of it.
//!
//! The feature `mutants` is for the simulator alone: with it one planted fault can be switched on per thread. Without it,
//! as in every program that is shipped, the module `mutants` is private and its switch is the constant `false`.

mod app;
mod assets;
mod consistency;
mod context;
mod counted;
mod event_types;
pub mod handlers;
pub mod idempotency;
mod ids;
pub mod jobs;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
pub mod ports;
mod privacy;
pub mod queues;
pub mod service;
pub mod use_cases;

pub use app::{Announcer, App, MarketTransactor, Rules};
pub use context::{Actor, CommandContext, Role};
pub use counted::{KEYS_AWAY, LIMIT_AWAY, LIMIT_FALLBACK, LIMIT_REFUSED, METRICS, OVERLOAD_REFUSED};
pub use ids::{BLOCK, Ids};
pub use jobs::{ConsistencySettings, RefundSettings, TimeoutSettings};
pub use service::Settings;
