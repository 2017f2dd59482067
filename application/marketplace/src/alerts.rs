//! Alerts of the marketplace. The toolkit has its own (`handover_outbox::state::ALERTS`).

use std::time::Duration;

use handover_outbox::{Alert, Limit, Severity};

use crate::state::{OLDEST_REFUND, OPEN_FINDINGS, OPEN_REPORTS, REFUNDS};

/// The alerts of the marketplace.
pub const ALERTS: &[Alert] = &[
    Alert {
        key: "alerts.refund-open",
        severity: Severity::Ticket,
        meaning: "The gateway has not decided about a refund for too long.",
        metrics: &[OLDEST_REFUND],
        only: None,
        limit: Limit::OlderThan(Duration::from_secs(3_600)),
    },
    Alert {
        key: "alerts.refund-failed",
        severity: Severity::Ticket,
        meaning: "Refunds have failed, and nobody has settled them.",
        metrics: &[REFUNDS],
        only: Some(("state", "FAILED")),
        limit: Limit::Above(0),
    },
    Alert {
        key: "alerts.gateway-report",
        severity: Severity::Page,
        meaning: "The gateway has reported payments or refunds that an operator must decide.",
        metrics: &[OPEN_REPORTS],
        only: None,
        limit: Limit::Above(0),
    },
    Alert {
        key: "alerts.reconciliation",
        severity: Severity::Ticket,
        meaning: "A reconciliation found differences between orders, events and effects that nobody has decided about.",
        metrics: &[OPEN_FINDINGS],
        only: None,
        limit: Limit::Above(0),
    },
];
