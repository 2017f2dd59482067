//! Consumers apply each event exactly once and in the order of its aggregate, or park it as a dead letter for an
//! operator.
//!
//! To add a consumer, implement [`Handler`], wrap it in a [`Subscriber`], and add its queue to the topology. A consumer
//! whose effects are outside the database implements [`ExternalHandler`]; it handles each event at least once.
//!
//! **Invariant:** the consume-log record and the handler's own writes are made in one transaction, which is committed
//! before the ack.

mod attempt;
mod bound;
mod breaker;
mod broker_timeout;
mod consumer;
mod counted_attempt;
mod dead_letters;
mod event_processor;
mod gate;
mod gate_marks;
mod gate_search;
mod group;
mod identity;
mod intake;
mod lanes;
mod lost_events;
mod outage;
mod outcome;
mod received_event;
mod reception;
mod registration;
mod single;
mod sweep;
mod undelivered_event;

pub use bound::Bound;
pub(crate) use broker_timeout::broker_timeout;
pub use consumer::Consumer;
pub(crate) use consumer::subscribe;
pub use dead_letters::DeadLetterDrainer;
pub(crate) use dead_letters::dead_record;
pub use dead_letters::{backfilled_record, retry_record};
pub(crate) use registration::{keep_registered, register};

pub use crate::error_kind::ErrorKind;
pub use crate::handler::{
    ALREADY_APPLIED, AnyHandler, Applied, Event, ExternalHandler, Guarantee, Handler, HandlerError,
    Subscriber,
};
