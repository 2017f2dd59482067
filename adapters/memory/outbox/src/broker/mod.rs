//! The broker in memory: the topology of spec §3 with the semantics of RabbitMQ, and switches for its faults.
//!
//! **Invariant:** between two steps every message is in exactly the places the port promises: nothing is on its way.

mod declare;
mod faults;
mod queue;
mod state;
mod subscription;

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::turn::yield_now;
use async_trait::async_trait;
use handover_outbox::ports::{
    Broker, BrokerError, Clock, Message, Outgoing, PublishOutcome, QueueDepth, Subscription,
};
use handover_outbox::topology::Topology;

use queue::Stored;
use state::State;
use subscription::MemorySubscription;

/// A broker in memory. Clones are the same broker.
#[derive(Clone)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryBroker {
    /// A broker with nothing declared. Messages expire by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryBroker {
        MemoryBroker { shared: Arc::new(Shared { state: Mutex::new(State::new()), clock }) }
    }

    /// Switches the broker off or on. Off, every call is `Unreachable`; the subscriptions are over, and what they had
    /// not settled is back in its queue.
    pub fn set_reachable(&self, reachable: bool) {
        let mut state = self.shared.state();
        state.reachable = reachable;
        if !reachable {
            state.disconnect();
        }
    }

    /// Lets it take no messages, as a server does that is short of memory or disk, or again take them. What is in its
    /// queues is delivered and acked all the while.
    pub fn set_blocked(&self, reason: Option<&str>) {
        self.shared.state().blocked = reason.map(str::to_owned);
    }

    /// Closes every subscription as a lost connection does; the broker stays reachable.
    pub fn disconnect(&self) {
        self.shared.state().disconnect();
    }

    /// Takes a binding from a queue; tells whether it had it.
    pub fn unbind(&self, queue: &str, pattern: &str) -> bool {
        self.shared.state().unbind(queue, pattern)
    }

    /// Gives a queue a binding; tells whether the queue exists.
    pub fn rebind(&self, queue: &str, pattern: &str) -> bool {
        self.shared.state().bind(queue, pattern)
    }

    /// Loses what is ready in a queue; tells how much that was.
    pub fn purge(&self, queue: &str) -> usize {
        self.shared.state().purge(queue)
    }

    /// Deletes a queue with its messages, bindings and subscriptions; tells whether it was there.
    pub fn delete(&self, queue: &str) -> bool {
        self.shared.state().delete(queue)
    }

    /// Nacks the next `count` published messages.
    pub fn nack_next(&self, count: usize) {
        self.shared.state().nacks_left = count;
    }

    /// Puts any message at the tail of a queue, past the exchange; tells whether the queue exists.
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
        // From here on the messages are in their queues, also if nobody waits for the confirms.
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
