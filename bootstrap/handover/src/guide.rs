//! Guides, in reading order.

pub mod start {
    //! Your first event: dependencies, event type, transaction, consumer.
    //!
    #![doc = include_str!("guide/start.md")]
}

pub mod transactions {
    //! Events in your own transactions.
    //!
    #![doc = include_str!("guide/transactions.md")]
}

pub mod consumers {
    //! Consumers: guarantees, errors, retries, settings.
    //!
    #![doc = include_str!("guide/consumers.md")]
}

pub mod order {
    //! The order of events.
    //!
    #![doc = include_str!("guide/order.md")]
}

pub mod dead_letters {
    //! Events that could not be published or applied.
    //!
    #![doc = include_str!("guide/dead_letters.md")]
}

pub mod testing {
    //! Tests of a service with an outbox.
    //!
    #![doc = include_str!("guide/testing.md")]
}

pub mod operations {
    //! Processes, roles, rights, monitoring.
    //!
    #![doc = include_str!("guide/operations.md")]
}

#[cfg(feature = "store")]
pub mod own_store {
    //! An outbox on a store of your own, without sqlx.
    //!
    #![doc = include_str!("guide/own_store.md")]
}

pub mod upgrading {
    //! New versions of your events and of this crate.
    //!
    #![doc = include_str!("guide/upgrading.md")]
}

pub mod from_own_outbox {
    //! From an outbox table of your own.
    //!
    #![doc = include_str!("guide/from_own_outbox.md")]
}

pub mod from_job_queue {
    //! From graphile_worker or apalis.
    //!
    #![doc = include_str!("guide/from_job_queue.md")]
}

pub mod from_broker {
    //! From a broker without an outbox.
    //!
    #![doc = include_str!("guide/from_broker.md")]
}

pub mod wire_format {
    //! Messages and rows, as other programs see them.
    //!
    #![doc = include_str!("guide/wire_format.md")]
}

pub mod comparison {
    //! Comparison with other outboxes and job queues.
    //!
    #![doc = include_str!("guide/comparison.md")]
}
