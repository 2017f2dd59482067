//! Adapters with one fault each, which wrap any adapter.
//!
//! A [`FaultyBroker`] violates a guarantee of the port. The self-tests of this suite use it: a rule that passes with every fault checks
//! nothing. A [`FaultyStore`] keeps every guarantee: one of its calls fails as the calls of a database do. Authors of
//! adapters, and of services that run on the toolkit's services, use both to see what their own tests detect.

mod broker;
mod store;

pub use broker::{BrokerFault, FaultyBroker};
pub use store::{FaultyStore, StoreCall, StoreFault};
