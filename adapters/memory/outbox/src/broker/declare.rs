//! Declaring: what is there stays, what differs is refused with both values.

use std::time::Duration;

use handover_outbox::ports::BrokerError;
use handover_outbox::topology::Topology;

use super::queue::Queue;
use super::state::{State, refused};

impl State {
    /// Checks everything before it changes anything.
    pub(super) fn declare(&mut self, topology: &Topology) -> Result<(), BrokerError> {
        if let Some(exchange) = self.exchange.as_ref().filter(|exchange| **exchange != topology.exchange) {
            let asked = &topology.exchange;
            return Err(refused(format!(
                "there is one exchange, {exchange}; {asked} cannot be another: use its name"
            )));
        }
        for asked in &topology.queues {
            let Some(queue) = self.queues.get(&asked.name) else { continue };
            let has = &queue.spec;
            let ttl =
                |ttl: Option<Duration>| ttl.map_or("none".to_owned(), |ttl| ttl.as_millis().to_string());
            let key = |key: &Option<String>| key.clone().unwrap_or_else(|| "none".to_owned());
            let arguments = [
                ("x-message-ttl", ttl(has.ttl), ttl(asked.ttl)),
                ("x-dead-letter-routing-key", key(&has.dead_letter_key), key(&asked.dead_letter_key)),
            ];
            if let Some((argument, has, asks)) = arguments.into_iter().find(|(_, has, asks)| has != asks) {
                let name = &asked.name;
                return Err(refused(format!(
                    "queue {name} exists with {argument} {has}, declared with {asks}: \
                     set it back, or delete the queue once it is empty"
                )));
            }
        }
        self.exchange = Some(topology.exchange.clone());
        for spec in &topology.queues {
            match self.queues.get_mut(&spec.name) {
                Some(queue) => queue.bindings.extend(spec.bindings.iter().cloned()),
                None => {
                    self.queues.insert(spec.name.clone(), Queue::new(spec.clone()));
                }
            }
        }
        self.routes.clear();
        Ok(())
    }
}
