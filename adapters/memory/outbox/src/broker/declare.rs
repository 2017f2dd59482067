//! Declaration of the topology: existing queues are kept; differing arguments are rejected with both values.

use std::time::Duration;

use handover_outbox::ports::BrokerError;
use handover_outbox::topology::Topology;

use super::queue::Queue;
use super::state::{State, refused};

impl State {
    /// Validates the whole topology before any change.
    pub(super) fn declare(&mut self, topology: &Topology) -> Result<(), BrokerError> {
        if let Some(exchange) = self.exchange.as_ref().filter(|exchange| **exchange != topology.exchange) {
            let declared = &topology.exchange;
            return Err(refused(format!(
                "exchange {exchange} exists, and this broker supports only one, so {declared} cannot be declared: \
                 use the existing name"
            )));
        }
        for spec in &topology.queues {
            let Some(queue) = self.queues.get(&spec.name) else { continue };
            let existing = &queue.spec;
            let ttl =
                |ttl: Option<Duration>| ttl.map_or("none".to_owned(), |ttl| ttl.as_millis().to_string());
            let key = |key: &Option<String>| key.clone().unwrap_or_else(|| "none".to_owned());
            let arguments = [
                ("x-message-ttl", ttl(existing.ttl), ttl(spec.ttl)),
                ("x-dead-letter-routing-key", key(&existing.dead_letter_key), key(&spec.dead_letter_key)),
            ];
            if let Some((argument, current, declared)) =
                arguments.into_iter().find(|(_, current, declared)| current != declared)
            {
                let name = &spec.name;
                return Err(refused(format!(
                    "queue {name} exists with {argument} {current}, but is declared with {declared}: \
                     restore the old value, or delete the queue when it is empty"
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
