//! Exchange, queues and bindings of the marketplace: the same for every broker.

use std::time::Duration;

use handover_outbox::topology::{QueueSpec, Topology};

/// The topic exchange to which every event is published.
pub const EXCHANGE: &str = "order.events.exchange";
/// Routing key of dead letters.
pub const DEAD_LETTER_KEY: &str = "order.dlq";
pub const DEAD_LETTER_QUEUE: &str = "order.dlq.queue";
/// Routing key of expired order timeouts.
pub const TIMEOUT_KEY: &str = "order.timeout";
/// Queue of expired order timeouts.
pub const TIMEOUT_QUEUE: &str = "order.timeout.queue";
/// Routing key of order timeouts that wait for the default TTL.
pub const TIMEOUT_DELAY_KEY: &str = "order.timeout.delay";
/// Delay queue with the default TTL.
pub const TIMEOUT_DELAY_QUEUE: &str = "order.timeout.delay.queue";
/// Queue of the listing projection.
pub const INVENTORY_QUEUE: &str = "inventory.update.queue";
/// Queue of shipment tasks.
pub const FULFILLMENT_QUEUE: &str = "order.fulfillment.queue";
/// Queue of notifications.
pub const STATUS_SYNC_QUEUE: &str = "order.status.sync.queue";
/// Queue of the coupon consumer.
pub const COUPON_QUEUE: &str = "asset.coupon.queue";
/// Queue of the wallet consumer.
pub const WALLET_QUEUE: &str = "asset.wallet.queue";
/// Queue of the points consumer.
pub const POINTS_QUEUE: &str = "asset.points.queue";
/// Queue of the buyer credit consumer.
pub const CREDIT_QUEUE: &str = "buyer.credit.queue";
/// Queue of the consumer `webhooks`.
pub const WEBHOOK_QUEUE: &str = "webhook.dispatch.queue";

/// Routing keys of the asset consumers.
const ASSET_BINDINGS: &[&str] = &["order.created", "order.paid", "order.cancelled", "order.refunded"];

/// TTL of the delay queue whose name has no suffix.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Builds the topology for a payment deadline of `timeout`. Every queue except the delay queue has a consumer, because
/// a queue without a consumer would grow without limit. A queue for a future consumer would be useless: a new consumer
/// does not process events from before its subscription.
pub fn topology(timeout: Duration) -> Topology {
    let delay = QueueSpec {
        name: format!("{TIMEOUT_DELAY_QUEUE}{}", ttl_suffix(timeout)),
        bindings: vec![timeout_delay_key(timeout)],
        ttl: Some(timeout),
        dead_letter_key: Some(TIMEOUT_KEY.to_owned()),
    };
    Topology::new(EXCHANGE, DEAD_LETTER_QUEUE, DEAD_LETTER_KEY)
        .with(INVENTORY_QUEUE, &["order.created", "order.cancelled", "order.refunded"])
        .with(FULFILLMENT_QUEUE, &["order.paid"])
        .with(STATUS_SYNC_QUEUE, &["order.status.changed"])
        .with_queue(delay)
        .with(TIMEOUT_QUEUE, &[TIMEOUT_KEY])
        .with(COUPON_QUEUE, ASSET_BINDINGS)
        .with(WALLET_QUEUE, ASSET_BINDINGS)
        .with(POINTS_QUEUE, ASSET_BINDINGS)
        .with(CREDIT_QUEUE, &["order.cancelled", "order.status.changed"])
        .with(
            WEBHOOK_QUEUE,
            &[
                "order.created",
                "order.paid",
                "order.status.changed",
                "order.cancelled",
                "order.refunded",
                "payment.*",
                "refund.*",
                "invoice.*",
            ],
        )
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
