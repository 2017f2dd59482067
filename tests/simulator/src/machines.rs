//! The state machines of the specification. They are defined here independently of the application, so that a
//! transition which the application allows by mistake is detected.

use std::fmt;

/// A transition of a state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transition {
    pub(crate) machine: &'static str,
    /// Previous status; [`NOTHING`] for a new object.
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transition of {} from {} to {}", self.machine, self.from, self.to)
    }
}

/// Previous status of a new object.
pub(crate) const NOTHING: &str = "nothing";

/// Status of an outbox row in the archive.
pub(crate) const ARCHIVED: &str = "ARCHIVED";

/// The state machines and their transitions.
const MACHINES: [(&str, &[(&str, &str)]); 12] = [
    // Spec §2 "Order". From paid to paid: a refund begins or fails.
    (
        "order",
        &[
            (NOTHING, "pending"),
            ("pending", "paid"),
            ("paid", "shipped"),
            ("shipped", "completed"),
            ("pending", "cancelled"),
            ("paid", "paid"),
            ("paid", "refunded"),
        ],
    ),
    // Spec §2 "Invoice".
    ("invoice", &[(NOTHING, "pending"), ("pending", "paid"), ("paid", "refunded")]),
    (
        "product",
        &[
            (NOTHING, "on_sale"),
            ("on_sale", "sold"),
            ("sold", "on_sale"),
            // The seller declines the order.
            ("sold", "off_shelf"),
            ("on_sale", "off_shelf"),
            ("off_shelf", "on_sale"),
        ],
    ),
    // From FAILED to SUCCESS: the gateway captures the money later than it reported.
    (
        "payment",
        &[
            (NOTHING, "PROCESSING"),
            ("PROCESSING", "SUCCESS"),
            ("PROCESSING", "FAILED"),
            ("FAILED", "SUCCESS"),
        ],
    ),
    // From PROCESSING to PROCESSING: a request to the gateway is recorded, or its response. From SUCCESS to FAILED: a bank
    // returned the money.
    (
        "refund",
        &[
            (NOTHING, "PROCESSING"),
            ("PROCESSING", "PROCESSING"),
            ("PROCESSING", "SUCCESS"),
            ("PROCESSING", "FAILED"),
            ("SUCCESS", "FAILED"),
        ],
    ),
    // Spec §2 "Assets". A new hold that is RELEASED is a tombstone. REVERTED stands for a COMMITTED hold with
    // `reverted`.
    (
        "hold",
        &[
            (NOTHING, "FROZEN"),
            (NOTHING, "RELEASED"),
            ("FROZEN", "COMMITTED"),
            ("FROZEN", "RELEASED"),
            ("COMMITTED", "REVERTED"),
        ],
    ),
    (
        "coupon",
        &[
            (NOTHING, "AVAILABLE"),
            ("AVAILABLE", "LOCKED"),
            ("LOCKED", "USED"),
            ("LOCKED", "AVAILABLE"),
            ("USED", "AVAILABLE"),
            ("AVAILABLE", "EXPIRED"),
        ],
    ),
    // From a final status to RETRY: a redrive. ARCHIVED stands for a row in the archive; from there to SENT: a restore.
    (
        "outbox row",
        &[
            (NOTHING, "NEW"),
            ("NEW", "SENT"),
            ("NEW", "RETRY"),
            // An unpublishable row.
            ("NEW", "FAILED"),
            ("RETRY", "RETRY"),
            ("RETRY", "SENT"),
            ("RETRY", "FAILED"),
            ("FAILED", "RETRY"),
            ("SENT", "RETRY"),
            ("SENT", ARCHIVED),
            (ARCHIVED, "SENT"),
        ],
    ),
    // Spec §3 "Consuming". From DEAD to FAILED: a replay.
    (
        "consume-log record",
        &[
            (NOTHING, "SUCCESS"),
            (NOTHING, "PROCESSING"),
            (NOTHING, "WAITING"),
            (NOTHING, "FAILED"),
            ("PROCESSING", "SUCCESS"),
            ("PROCESSING", "PROCESSING"),
            ("PROCESSING", "FAILED"),
            ("PROCESSING", "DEAD"),
            ("WAITING", "SUCCESS"),
            ("WAITING", "PROCESSING"),
            ("WAITING", "FAILED"),
            ("FAILED", "SUCCESS"),
            ("FAILED", "PROCESSING"),
            ("FAILED", "FAILED"),
            ("FAILED", "DEAD"),
            ("DEAD", "FAILED"),
        ],
    ),
    (
        "dead letter",
        &[
            (NOTHING, "OPEN"),
            ("OPEN", "REPLAYING"),
            ("REPLAYING", "REPLAYING"),
            ("REPLAYING", "REPLAYED"),
            ("OPEN", "DISCARDED"),
            ("REPLAYED", "OPEN"),
        ],
    ),
    // Spec §4. From a status to the same: a change by an operator.
    (
        "webhook endpoint",
        &[
            (NOTHING, "ENABLED"),
            ("ENABLED", "ENABLED"),
            ("ENABLED", "DISABLED"),
            ("DISABLED", "DISABLED"),
            ("DISABLED", "ENABLED"),
            ("ENABLED", "DELETED"),
            ("DISABLED", "DELETED"),
        ],
    ),
    // From PENDING to PENDING: a failed or interrupted attempt. From DEAD to PENDING: an operator sends it again.
    (
        "webhook delivery",
        &[
            (NOTHING, "PENDING"),
            ("PENDING", "PENDING"),
            ("PENDING", "DELIVERED"),
            ("PENDING", "DEAD"),
            ("PENDING", "CANCELLED"),
            ("DEAD", "PENDING"),
        ],
    ),
];

/// Legal transitions that are too rare to be required by a test. Several changes of an asset in one unit of work, when
/// a consumer applies several events of its order, count as one transition.
const RARE: [(&str, &str, &str); 13] = [
    ("hold", NOTHING, "COMMITTED"),
    ("hold", NOTHING, "REVERTED"),
    ("hold", "FROZEN", "REVERTED"),
    ("coupon", "AVAILABLE", "AVAILABLE"),
    ("coupon", "AVAILABLE", "USED"),
    ("dead letter", "DISCARDED", "OPEN"),
    ("consume-log record", NOTHING, "DEAD"),
    ("consume-log record", "WAITING", "DEAD"),
    // The event needs a lock that another transaction holds; the sweep retries it.
    ("consume-log record", "WAITING", "WAITING"),
    ("consume-log record", "PROCESSING", "WAITING"),
    // The breaker of the consumer opened and took the only attempt back.
    ("consume-log record", "FAILED", "WAITING"),
    ("dead letter", "REPLAYING", "DISCARDED"),
    ("dead letter", "REPLAYING", "OPEN"),
];

/// Every transition that the runs have to take.
pub(crate) fn required() -> impl Iterator<Item = Transition> {
    MACHINES
        .iter()
        .flat_map(|(machine, steps)| steps.iter().map(|(from, to)| Transition { machine, from, to }))
}

/// Whether the specification allows this transition.
pub(crate) fn is_legal(transition: Transition) -> bool {
    let steps = MACHINES.iter().find(|(machine, _)| *machine == transition.machine).map(|(_, steps)| *steps);
    steps.is_some_and(|steps| steps.contains(&(transition.from, transition.to)))
        || RARE.iter().any(|(machine, from, to)| Transition { machine, from, to } == transition)
}
