//! A transactional outbox: events are committed together with the change they announce, a relay publishes them,
//! consumers apply each event exactly once and in the order of its aggregate, and operators handle dead letters.
//!
//! - A unit of work *has* an outbox ([`ports::UnitOfWork`]): [`append`] adds events to it in the caller's
//!   transaction.
//! - [`with_tx`] is the only way to run a unit of work.
//! - An [`Outbox`] contains the services that the relay, consumers, dead-letter drainer and operators of one process
//!   need; [`runtime`] starts the relay, the consumers and the drainer, [`jobs`] periodic jobs, [`dispatch`] tasks that
//!   leave the database.
//! - [`state`] reads the state of the deployment for metrics.
//! - [`webhooks`] sends events to systems of others over signed HTTP.
//! - [`archive`] selects the events that may leave the database.
//! - A [`consumers::Handler`] applies events in the application's own unit of work;
//!   [`Subscriber::bind`](consumers::Subscriber::bind) connects it to a store.
//! - Database and broker are ports ([`ports`]).

#![warn(missing_docs)]

// `#[wrappable]` generates paths that start with `handover_outbox`. This line makes them valid inside this crate.
extern crate self as handover_outbox;

mod alert;
pub mod archive;
mod audit_retention;
mod backlog;
mod broker_outage;
pub mod consumers;
pub mod dispatch;
mod error_kind;
mod event_flow;
mod event_id;
mod event_line;
mod figures;
mod gauges;
mod handler;
pub mod history;
pub mod jobs;
mod lease_watch;
mod logged_id;
mod low_water_mark;
mod message;
mod metrics;
pub mod operations;
mod outbox;
mod page;
pub mod ports;
mod privacy;
mod process_report;
mod registry;
pub mod relay;
mod running_settings;
pub mod runtime;
mod settings;
mod similar;
mod slices;
mod spans;
pub mod state;
mod storable_text;
mod summary;
mod supervision;
mod tasks;
mod texts;
pub mod topology;
mod transaction;
mod wakeup;
pub mod webhooks;
pub mod wrap;

pub use self::metrics::{
    BUCKETS, COUNT_BUCKETS, METRICS, Metric, MetricKind, append, append_logged_in, count_on_commit,
};
pub use alert::{Alert, Limit, Severity};
pub use audit_retention::AuditRetention;
pub use event_flow::EventFlow;
pub use event_id::{event_id, uuid_v7};
pub use event_line::EVENT_TARGET;
pub use figures::{ConsumerFigures, Distribution, Figures, PERIOD};
pub use lease_watch::{LeaseWatch, is_in_the_future};
pub use low_water_mark::{FullSearch, LowWaterMark, SearchFrom};
pub use outbox::{ConsumerQueue, Outbox};
pub use page::Page;
pub use privacy::MASK;
pub use registry::{EventRegistry, EventSpan, EventSpec};
pub use settings::{ConsumeOrder, ConsumerSettings, OnOutage, OwnSettings, RelaySettings};
pub use spans::{SPAN_TARGET, TraceContext, destination};
pub use tasks::{MAX_UNITS, Tasks};
pub use texts::Texts;
pub use transaction::{Attempt, BoxFuture, Transactor, TxPolicy, UnitError, with_tx};
pub use wakeup::WakeupNotifier;
