//! A transactional outbox: events that commit with what they announce, a relay that publishes them, consumers that apply
//! each exactly once and in the order of its aggregate, dead letters, and what operators do about them.
//!
//! - A unit of work *has* an outbox ([`ports::UnitOfWork`]): [`append`] puts events into it, in the transaction of the caller.
//! - [`with_tx`] is the one way into a transaction.
//! - An [`Outbox`] is what relay, consumers, drainer and operators of one process work with; [`runtime`] starts them.
//! - A [`consumers::Handler`] applies events in a unit of its own type, joined with a store by
//!   [`Subscriber::bind`](consumers::Subscriber::bind).
//! - Database and broker are ports ([`ports`]).
//!
//! The feature `mutants` is for simulators alone: with it one planted fault can be switched on per thread. Without it, as in
//! every program that is shipped, the switch is the constant `false`.

// `#[wrappable]` names this crate, also in here.
extern crate self as handover_outbox;

pub mod consumers;
mod counted;
mod event_id;
mod foreign;
pub mod history;
mod lease_watch;
pub mod mutants;
pub mod operations;
mod outbox;
mod page;
pub mod ports;
mod privacy;
mod registry;
pub mod relay;
pub mod runtime;
mod settings;
mod tasks;
pub mod texts;
pub mod topology;
mod transaction;
mod wake;
pub mod wrap;

pub use counted::{METRICS, Metric, MetricKind, PENDING, append, when_committed};
pub use event_id::event_id;
pub use lease_watch::{LeaseWatch, is_of_the_future};
pub use outbox::Outbox;
pub use page::Page;
pub use privacy::MASK;
pub use registry::{EventRegistry, EventSpec};
pub use settings::{ConsumerSettings, OnOutage, RelaySettings};
pub use tasks::{MAX_UNITS, Tasks};
pub use transaction::{Attempt, BoxFuture, Transactor, TxPolicy, UnitError, with_tx};
pub use wake::Wake;
