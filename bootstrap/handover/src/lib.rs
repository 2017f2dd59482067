#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
// docs.rs builds with nightly and shows the feature of each item.
#![cfg_attr(docsrs, feature(doc_cfg))]

// The derive macro generates paths that start with `handover`. This line makes them valid inside this crate.
extern crate self as handover;

#[cfg(not(any(feature = "sqlx", feature = "store")))]
compile_error!(
    "no database is enabled: run `cargo add handover --features postgres` (or `mysql`, `sqlite`, or `store` for a store of your \
     own)"
);

mod backend;
mod broker;
mod builder;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
mod consumer;
mod data;
#[cfg(feature = "sqlx")]
mod database;
mod enqueue;
mod error;
mod event;
pub mod guide;
mod handler;
#[cfg(feature = "http")]
pub mod http;
mod layer;
mod origins;
#[cfg(feature = "otel")]
mod otel;
mod outbox;
#[cfg(feature = "store")]
mod own_store;
mod parts;
mod registration;
mod report;
mod retention;
mod running;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "test")]
pub mod test;
mod trace_layer;

pub use backend::Backend;
pub use broker::BrokerChoice;
#[cfg(feature = "rabbitmq")]
pub use broker::RabbitMq;
pub use builder::Builder;
pub use consumer::IntoConsumer;
pub use data::Data;
#[cfg(feature = "sqlx")]
pub use database::Database;
pub use enqueue::{Enqueuer, Options};
pub use error::{BuildError, EnqueueError, Error};
pub use event::Event;
pub use handler::{
    AtLeastOnce, AtLeastOnceFn, HandlerError, Handlers, InTransaction, InTransactionFn, Result,
    at_least_once, in_transaction,
};
pub use handover_events::{
    AggregateId, AggregateIdError, ConsumeStatus, EventId, EventKey, EventType, Jitter, Keyed, RetryPolicy,
    RetryPolicyError, TenantId, Trace,
};
pub use handover_macros::EventType as Event;
pub use handover_outbox::BoxFuture;
pub use handover_outbox::archive::{ArchiveStorage, RetentionPolicy};
pub use handover_outbox::consumers::Applied;
pub use handover_outbox::ports::{BrokerError, OlderRelay, StoreError};
pub use handover_outbox::state::{ALERTS, StateMetrics};
pub use handover_outbox::{Alert, Limit, Severity};
#[cfg(feature = "sqlx")]
pub use handover_sql::{SchemaError, UnsuitableSetting};
pub use layer::{Call, Layer};
pub use outbox::Outbox;
pub use parts::Role;
pub use report::Report;
pub use running::Running;
/// The version of sqlx whose pools, connections and transactions this crate takes.
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use trace_layer::TraceLayer;
