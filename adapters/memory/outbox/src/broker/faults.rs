//! Faults: changes of the broker's state that the application does not cause.

use super::queue::Queue;
use super::state::State;

impl State {
    /// Ends all subscriptions, like a lost connection.
    pub(super) fn disconnect(&mut self) {
        for id in self.subscribers.keys().copied().collect::<Vec<_>>() {
            self.unsubscribe(id);
        }
    }

    pub(super) fn bind(&mut self, name: &str, pattern: &str) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return false };
        queue.bindings.insert(pattern.to_owned());
        self.routes.clear();
        true
    }

    pub(super) fn unbind(&mut self, name: &str, pattern: &str) -> bool {
        self.routes.clear();
        self.queues.get_mut(name).is_some_and(|queue| queue.bindings.remove(pattern))
    }

    pub(super) fn purge(&mut self, name: &str) -> usize {
        self.queues.get_mut(name).map_or(0, Queue::clear)
    }

    pub(super) fn delete(&mut self, name: &str) -> bool {
        let subscribed = self.subscribers.iter().filter(|(_, subscriber)| subscriber.queue == name);
        for id in subscribed.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.unsubscribe(id);
        }
        self.routes.clear();
        self.queues.remove(name).is_some()
    }
}
