//! What an outbox on a store of the application needs: the ports that the store implements, and its units of work.
//!
//! See [the guide](crate::guide::own_store).

pub use handover_outbox::{
    Attempt, Tasks, Transactor, UnitError, WakeupNotifier, append, ports, topology, with_tx,
};

pub use crate::own_store::OwnStore;
