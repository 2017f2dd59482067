//! Exchange, queues and bindings (spec §3 "Topology"): one table, the same for every broker.

use std::time::Duration;

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

/// A queue, what it is bound to, and where it sends what dies in it: always through the topic exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSpec {
    /// Its name.
    pub name: String,
    /// Patterns of the topic exchange: words between dots, `*` is one word, `#` any number.
    pub bindings: Vec<String>,
    /// Messages older than this are dead-lettered.
    pub ttl: Option<Duration>,
    /// The key that rejected and expired messages are routed with; `None` drops them.
    pub dead_letter_key: Option<String>,
}

/// What a broker must offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The topic exchange.
    pub exchange: String,
    /// Its queues.
    pub queues: Vec<QueueSpec>,
}

impl Topology {
    /// The topology for a payment deadline of `timeout`. A queue is declared with its consumer: one without would only
    /// fill up, and a consumer takes no history.
    pub fn standard(timeout: Duration) -> Topology {
        let business = |name: &str, bindings: &[&str]| QueueSpec {
            name: name.to_owned(),
            bindings: bindings.iter().map(|key| (*key).to_owned()).collect(),
            ttl: None,
            dead_letter_key: Some(DEAD_LETTER_KEY.to_owned()),
        };
        Topology {
            exchange: EXCHANGE.to_owned(),
            queues: vec![
                business(INVENTORY_QUEUE, &["order.created", "order.cancelled", "order.refunded"]),
                business(FULFILLMENT_QUEUE, &["order.paid"]),
                business(STATUS_SYNC_QUEUE, &["order.status.changed"]),
                QueueSpec {
                    name: format!("{TIMEOUT_DELAY_QUEUE}{}", ttl_mark(timeout)),
                    bindings: vec![timeout_delay_key(timeout)],
                    ttl: Some(timeout),
                    dead_letter_key: Some(TIMEOUT_KEY.to_owned()),
                },
                business(TIMEOUT_QUEUE, &[TIMEOUT_KEY]),
                business(COUPON_QUEUE, ASSET_BINDINGS),
                business(WALLET_QUEUE, ASSET_BINDINGS),
                business(POINTS_QUEUE, ASSET_BINDINGS),
                business(CREDIT_QUEUE, &["order.cancelled", "order.status.changed"]),
                business(
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
                ),
                dead_letters(),
            ],
        }
    }

    /// The exchange and the dead-letter queue alone: what every service needs.
    pub fn bare() -> Topology {
        Topology { exchange: EXCHANGE.to_owned(), queues: vec![dead_letters()] }
    }
}

fn dead_letters() -> QueueSpec {
    QueueSpec {
        name: DEAD_LETTER_QUEUE.to_owned(),
        bindings: vec![DEAD_LETTER_KEY.to_owned()],
        ttl: None,
        dead_letter_key: None,
    }
}

/// The key of the delay queue: a TTL other than the default is part of it, so that a changed setting meets no old
/// queue and both drain (spec §3).
pub fn timeout_delay_key(timeout: Duration) -> String {
    format!("{TIMEOUT_DELAY_KEY}{}", ttl_mark(timeout))
}

fn ttl_mark(timeout: Duration) -> String {
    if timeout == DEFAULT_TIMEOUT { String::new() } else { format!(".{}ms", timeout.as_millis()) }
}

/// Whether a topic pattern matches a routing key (AMQP 0-9-1, topic exchange).
pub fn topic_matches(pattern: &str, key: &str) -> bool {
    fn matches(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), None) => matches(rest, key),
            (Some((&"#", rest)), Some((_, later))) => matches(rest, key) || matches(pattern, later),
            (Some((&"*", rest)), Some((_, later))) => matches(rest, later),
            (Some((word, rest)), Some((first, later))) => word == first && matches(rest, later),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
    matches(&pattern.split('.').collect::<Vec<_>>(), &key.split('.').collect::<Vec<_>>())
}
