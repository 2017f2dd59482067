//! The marketplace: use cases, event handlers and periodic jobs. It publishes and consumes events through the outbox
//! (`handover_outbox`), which does not depend on the marketplace.

mod alerts;
mod app;
mod assets;
mod cash;
mod claim;
mod consistency;
pub mod consumer;
pub mod consumers;
mod context;
mod error;
pub mod event_types;
mod events;
mod gateway_reports;
pub mod idempotency;
mod idle_consumers;
mod ids;
pub mod jobs;
mod metrics;
pub mod ports;
mod privacy;
pub mod queues;
mod retention;
pub mod service;
mod state;
mod texts;
pub mod use_cases;
mod webhook_offer;

pub use self::metrics::{
    IDEMPOTENCY_REDIS_UNAVAILABLE, LIMIT_FALLBACK, LIMIT_REDIS_UNAVAILABLE, LIMIT_REFUSED, METRICS,
};
pub use alerts::ALERTS;
pub use app::{App, Rules};
pub use context::{Actor, CommandContext, Role};
pub use events::{EventFactory, EventSource};
pub use gateway_reports::ReportedName;
pub use ids::{ID_BLOCK_SIZE, Ids};
pub use jobs::{
    AutoCompletionSettings, ConsistencySettings, InvoiceSettings, RefundSettings, TimeoutSettings,
};
pub use ports::MarketTransactor;
pub use retention::EventsOfOpenCases;
pub use service::Settings;
pub use state::MarketState;
