//! Exchange, queues and bindings of the marketplace (spec §3 "Topology"): one table, the same for every broker.

use std::time::Duration;

use handover_outbox::topology::{QueueSpec, Topology};

/// The topic exchange every event is published to.
pub const EXCHANGE: &str = "order.events.exchange";
/// The key dead letters are routed with.
pub const DEAD_LETTER_KEY: &str = "order.dlq";
/// The queue of dead letters.
pub const DEAD_LETTER_QUEUE: &str = "order.dlq.queue";
/// The key under which due timeouts are routed.
pub const TIMEOUT_KEY: &str = "order.timeout";
/// The queue of due timeouts.
pub const TIMEOUT_QUEUE: &str = "order.timeout.queue";
/// The key of timeouts that are not due, with the default TTL.
pub const TIMEOUT_DELAY_KEY: &str = "order.timeout.delay";
/// The queue of timeouts that are not due, with the default TTL.
pub const TIMEOUT_DELAY_QUEUE: &str = "order.timeout.delay.queue";
/// The listing projection's queue.
pub const INVENTORY_QUEUE: &str = "inventory.update.queue";
/// The shipment tasks' queue.
pub const FULFILLMENT_QUEUE: &str = "order.fulfillment.queue";
/// The notifications' queue.
pub const STATUS_SYNC_QUEUE: &str = "order.status.sync.queue";
/// The coupons' queue.
pub const COUPON_QUEUE: &str = "asset.coupon.queue";
/// The wallets' queue.
pub const WALLET_QUEUE: &str = "asset.wallet.queue";
/// The points' queue.
pub const POINTS_QUEUE: &str = "asset.points.queue";
/// The buyers' credit's queue.
pub const CREDIT_QUEUE: &str = "buyer.credit.queue";
/// The webhook dispatcher's queue.
pub const WEBHOOK_QUEUE: &str = "webhook.dispatch.queue";

/// What the asset consumers act on.
const ASSET_BINDINGS: &[&str] = &["order.created", "order.paid", "order.cancelled", "order.refunded"];

/// The TTL that needs no mark in the delay queue's name (000 §4.5).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The topology for a payment deadline of `timeout`. A queue is declared with its consumer: one without would only
/// fill up, and a consumer takes no history.
pub fn topology(timeout: Duration) -> Topology {
    let delay = QueueSpec {
        name: format!("{TIMEOUT_DELAY_QUEUE}{}", ttl_mark(timeout)),
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

/// The key of the delay queue: a TTL other than the default is part of it, so that a changed setting meets no old
/// queue and both drain (spec §3).
pub fn timeout_delay_key(timeout: Duration) -> String {
    format!("{TIMEOUT_DELAY_KEY}{}", ttl_mark(timeout))
}

fn ttl_mark(timeout: Duration) -> String {
    if timeout == DEFAULT_TIMEOUT { String::new() } else { format!(".{}ms", timeout.as_millis()) }
}
