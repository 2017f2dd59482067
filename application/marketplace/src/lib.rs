//! The marketplace: use cases, event handlers and periodic jobs. It publishes and consumes events through the outbox
//! (`handover_outbox`), which does not depend on it.

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
