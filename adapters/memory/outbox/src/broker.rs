//! In-memory broker with the semantics of RabbitMQ, and methods to inject faults.
//!
//! **Invariant:** every operation is atomic: between two operations each message is exactly where the port specifies.

mod declare;
mod faults;
mod queue;
mod shared;
mod state;
mod subscription;

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};

use crate::yield_now::yield_now;
use async_trait::async_trait;
use handover_outbox::ports::{
    Broker, BrokerError, Clock, Message, Outgoing, PublishOutcome, QueueDepth, Subscription,
};
use handover_outbox::topology::Topology;

use queue::Stored;
use shared::Shared;
use state::State;
use subscription::MemorySubscription;

/// An in-memory broker. Clones share the same broker.
#[derive(Clone)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
}

impl MemoryBroker {
    /// Creates a broker without queues. Messages expire by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryBroker {
        MemoryBroker { shared: Arc::new(Shared { state: Mutex::new(State::new()), clock }) }
    }

    /// Switches the broker off or on. While it is off, every call except `blocked` fails with `Unreachable`. Switching
    /// it off ends all subscriptions and requeues their unsettled deliveries.
    pub fn set_reachable(&self, reachable: bool) {
        let mut state = self.shared.state();
        state.reachable = reachable;
        if !reachable {
            state.disconnect();
        }
    }

    /// Blocks publishing with a reason, like a server that is low on memory or disk space; `None` unblocks it. Delivery
    /// and acknowledgement continue while publishing is blocked.
    pub fn set_blocked(&self, reason: Option<&str>) {
        self.shared.state().blocked = reason.map(str::to_owned);
    }

    /// Ends all subscriptions, like a lost connection. The broker remains reachable.
    pub fn disconnect(&self) {
        self.shared.state().disconnect();
    }

    /// Removes a binding from a queue; returns whether it existed.
    pub fn unbind(&self, queue: &str, pattern: &str) -> bool {
        self.shared.state().unbind(queue, pattern)
    }

    /// Adds a binding to a queue; returns whether the queue exists.
    pub fn rebind(&self, queue: &str, pattern: &str) -> bool {
        self.shared.state().bind(queue, pattern)
    }

    /// Deletes the ready messages of a queue; returns their number.
    pub fn purge(&self, queue: &str) -> usize {
        self.shared.state().purge(queue)
    }

    /// Deletes a queue with its messages, bindings and subscriptions; returns whether it existed.
    pub fn delete(&self, queue: &str) -> bool {
        self.shared.state().delete(queue)
    }

    /// Rejects the next `count` published messages with a publisher nack.
    pub fn nack_next(&self, count: usize) {
        self.shared.state().nacks_left = count;
    }

    /// Adds a message at the tail of a queue without routing; returns whether the queue exists.
    pub fn inject(&self, queue: &str, message: Message) -> bool {
        let now = self.shared.clock.now();
        self.shared.state().enter(queue, Stored::new(Arc::new(message)), now)
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        yield_now().await;
        let mut state = self.shared.state();
        state.check_reachable()?;
        state.declare(topology)
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        yield_now().await;
        let outcomes = self.shared.state().publish(window, self.shared.clock.now())?;
        // The messages are in their queues from here on, even if the caller is cancelled before the confirms.
        yield_now().await;
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        yield_now().await;
        let id = self.shared.state().subscribe(queue, prefetch.get())?;
        Ok(Box::new(MemorySubscription::new(self.shared.clone(), id, queue.to_owned())))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        yield_now().await;
        let mut state = self.shared.state();
        state.check_reachable()?;
        state.expire(self.shared.clock.now());
        Ok(state.depths())
    }

    async fn blocked(&self) -> Option<String> {
        self.shared.state().blocked.clone()
    }
}
