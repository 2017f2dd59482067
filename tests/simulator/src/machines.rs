//! The state machines as the specification draws them: which steps are legal. Written down here a second time, by hand,
//! so that a step which the product begins to allow is noticed.

use std::fmt;

/// A step of something that has a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    /// Of what.
    pub(crate) machine: &'static str,
    /// From which status; [`NOTHING`] where it was not there.
    pub(crate) from: &'static str,
    /// To which.
    pub(crate) to: &'static str,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the step of {} from {} to {}", self.machine, self.from, self.to)
    }
}

/// Where something comes from that was not there before.
pub(crate) const NOTHING: &str = "nothing";

/// The machine of each thing, and its steps.
const MACHINES: [(&str, &[(&str, &str)]); 9] = [
    // Spec §2 "Order". From paid to paid: its refund begins, or fails.
    (
        "an order",
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
    (
        "a product",
        &[
            (NOTHING, "on_sale"),
            ("on_sale", "sold"),
            ("sold", "on_sale"),
            ("on_sale", "off_shelf"),
            ("off_shelf", "on_sale"),
        ],
    ),
    ("a payment", &[(NOTHING, "PROCESSING"), ("PROCESSING", "SUCCESS"), ("PROCESSING", "FAILED")]),
    // From PROCESSING to PROCESSING: the gateway is asked once more, or what it answered is written down.
    (
        "a refund",
        &[
            (NOTHING, "PROCESSING"),
            ("PROCESSING", "PROCESSING"),
            ("PROCESSING", "SUCCESS"),
            ("PROCESSING", "FAILED"),
        ],
    ),
    // Spec §2 "Assets". Released from nothing: a tombstone. REVERTED is how a committed hold is called here that was given
    // back.
    (
        "a hold",
        &[
            (NOTHING, "FROZEN"),
            (NOTHING, "RELEASED"),
            ("FROZEN", "COMMITTED"),
            ("FROZEN", "RELEASED"),
            ("COMMITTED", "REVERTED"),
        ],
    ),
    (
        "a coupon",
        &[
            (NOTHING, "AVAILABLE"),
            ("AVAILABLE", "LOCKED"),
            ("LOCKED", "USED"),
            ("LOCKED", "AVAILABLE"),
            ("USED", "AVAILABLE"),
            ("AVAILABLE", "EXPIRED"),
        ],
    ),
    // Back to RETRY from where nothing happens any more: an operator's redrive.
    (
        "an outbox row",
        &[
            (NOTHING, "NEW"),
            ("NEW", "SENT"),
            ("NEW", "RETRY"),
            // A row that can never be sent.
            ("NEW", "FAILED"),
            ("RETRY", "RETRY"),
            ("RETRY", "SENT"),
            ("RETRY", "FAILED"),
            ("FAILED", "RETRY"),
            ("SENT", "RETRY"),
        ],
    ),
    // Spec §3 "Consuming". From DEAD to FAILED leads a replay.
    (
        "a consumption",
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
        "a dead letter",
        &[
            (NOTHING, "OPEN"),
            ("OPEN", "REPLAYING"),
            ("REPLAYING", "REPLAYING"),
            ("REPLAYING", "REPLAYED"),
            ("OPEN", "DISCARDED"),
            ("REPLAYED", "OPEN"),
        ],
    ),
];

/// Steps that are legal and so rare that no test can ask for them. What an asset walks within one unit of work, in which a
/// consumer applies several events of its order, is one step.
const RARE: [(&str, &str, &str); 12] = [
    ("a hold", NOTHING, "COMMITTED"),
    ("a hold", NOTHING, "REVERTED"),
    ("a hold", "FROZEN", "REVERTED"),
    ("a coupon", "AVAILABLE", "AVAILABLE"),
    ("a coupon", "AVAILABLE", "USED"),
    ("a dead letter", "DISCARDED", "OPEN"),
    ("a consumption", NOTHING, "DEAD"),
    ("a consumption", "WAITING", "DEAD"),
    // Left to the sweep, as somebody else keeps a lock that the event needs.
    ("a consumption", "WAITING", "WAITING"),
    ("a consumption", "PROCESSING", "WAITING"),
    ("a dead letter", "REPLAYING", "DISCARDED"),
    ("a dead letter", "REPLAYING", "OPEN"),
];

/// Every step that the runs have to walk.
pub(crate) fn wanted() -> impl Iterator<Item = Edge> {
    MACHINES.iter().flat_map(|(machine, steps)| steps.iter().map(|(from, to)| Edge { machine, from, to }))
}

/// Whether the specification draws this step.
pub(crate) fn is_legal(edge: Edge) -> bool {
    let steps = MACHINES.iter().find(|(machine, _)| *machine == edge.machine).map(|(_, steps)| *steps);
    steps.is_some_and(|steps| steps.contains(&(edge.from, edge.to)))
        || RARE.iter().any(|(machine, from, to)| Edge { machine, from, to } == edge)
}
