//! Exchange, dead-letter queue and delay queue of the marketplace: the same for every broker. Each consumer defines its own
//! queue.

use std::time::Duration;

use handover_outbox::topology::QueueSpec;

/// The topic exchange to which every event is published.
pub const EXCHANGE: &str = "order.events.exchange";
/// Routing key of dead letters.
pub const DEAD_LETTER_KEY: &str = "order.dlq";
pub const DEAD_LETTER_QUEUE: &str = "order.dlq.queue";
/// Routing key of expired order timeouts.
pub const TIMEOUT_KEY: &str = "order.timeout";
/// Routing key of order timeouts that wait for the default TTL.
pub const TIMEOUT_DELAY_KEY: &str = "order.timeout.delay";
/// Delay queue with the default TTL.
pub const TIMEOUT_DELAY_QUEUE: &str = "order.timeout.delay.queue";
/// TTL of the delay queue whose name has no suffix.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The queue in which order timeouts wait for a payment deadline of `timeout`.
pub(crate) fn timeout_delay_queue(timeout: Duration) -> QueueSpec {
    QueueSpec {
        name: format!("{TIMEOUT_DELAY_QUEUE}{}", ttl_suffix(timeout)),
        bindings: vec![timeout_delay_key(timeout)],
        ttl: Some(timeout),
        dead_letter_key: Some(TIMEOUT_KEY.to_owned()),
        is_selective: false,
        receives_from: None,
    }
}

/// Routing key of the delay queue. A TTL other than the default is part of the key and of the queue name, because
/// RabbitMQ rejects a changed TTL on an existing queue. After a change of the setting, the messages in the former queue
/// still expire.
pub fn timeout_delay_key(timeout: Duration) -> String {
    format!("{TIMEOUT_DELAY_KEY}{}", ttl_suffix(timeout))
}

fn ttl_suffix(timeout: Duration) -> String {
    if timeout == DEFAULT_TIMEOUT { String::new() } else { format!(".{}ms", timeout.as_millis()) }
}
