//! Ports, use cases, the outbox relay and the exactly-once consumers. Knows the domain, and nothing of the world.
//!
//! The feature `mutants` is for the simulator alone: with it one planted fault can be switched on per thread. Without it,
//! as in every program that is shipped, the module `mutants` is private and its switch is the constant `false`.

mod app;
mod assets;
mod consistency;
pub mod consumers;
mod context;
mod counted;
mod extensions;
mod foreign;
mod history;
pub mod idempotency;
mod ids;
pub mod jobs;
mod lease_watch;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
mod outbox;
pub mod ports;
mod privacy;
pub mod queues;
mod registry;
pub mod relay;
mod runtime;
pub mod service;
mod settings;
mod tasks;
pub mod texts;
pub mod topology;
mod transaction;
pub mod use_cases;
mod wake;

pub use app::{Announcer, App, MarketTransactor, Rules};
pub use context::{Actor, CommandContext, Role};
pub use counted::{
    KEYS_AWAY, LIMIT_AWAY, LIMIT_FALLBACK, LIMIT_REFUSED, METRICS, Metric, MetricKind, OVERLOAD_REFUSED,
    PENDING, append,
};
pub use extensions::{Extensions, Marketplace};
pub use handover_events::Trace;
pub use ids::{BLOCK, Ids, event_id};
pub use jobs::{ConsistencySettings, RefundSettings, TimeoutSettings};
pub use lease_watch::LeaseWatch;
pub use outbox::Outbox;
pub use privacy::MASK;
pub use registry::{EventRegistry, EventSpec};
pub use service::Settings;
pub use settings::{ConsumerSettings, OnOutage, RelaySettings};
pub use tasks::{MAX_UNITS, Tasks};
pub use transaction::{Attempt, BoxFuture, Transactor, TxPolicy, UnitError, with_tx};
pub use wake::Wake;
