//! The alerts of the toolkit.

use std::time::Duration;

use super::database::OLDEST_TRANSACTION;
use super::deployment::{
    BEHIND, BROKER_BLOCKED_TIME, BROKER_UNREACHABLE, DEAD_LETTERS, MISSED_RUNS, MOST_RETRIES,
    PAUSED_CONSUMERS, PUBLISH_FAILURES, READY, ROWS, UNATTENDED, WEBHOOK_DISABLED_FAILING,
    WEBHOOK_OLDEST_DUE, WEBHOOK_UNDELIVERED, WITHOUT_OWNER,
};
use crate::alert::{Alert, Limit, Severity};
use crate::archive::JOB;
use crate::metrics::{Metric, OLDEST_DUE};

/// 1 for each active alert, otherwise 0.
pub const ALERT_ACTIVE: Metric =
    Metric::state("handover.alert.active", "1 while the alert is active, otherwise 0").by(&["alert"]);
/// 1 for each acknowledged alert, otherwise 0.
pub const ALERT_ACKNOWLEDGED: Metric = Metric::state(
    "handover.alert.acknowledged",
    "1 while an operator has acknowledged the alert, otherwise 0",
)
.by(&["alert"]);
/// 1 if a process cannot write to the database for a reason of the system, otherwise 0.
pub(super) const STORAGE_REFUSED: Metric = Metric::state(
    "handover.database.writes.refused",
    "1 while the database refuses the writes of this process because of disk space, rights, a limit or a read-only mode",
);

/// The metrics of alerts.
pub(super) const METRICS: &[Metric] = &[ALERT_ACTIVE, ALERT_ACKNOWLEDGED, STORAGE_REFUSED];

/// Name of the alert that each process starts by itself, because nothing can be written to the database.
pub(super) const STORAGE: &str = "storage";

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The alerts of the toolkit.
pub const ALERTS: &[Alert] = &[
    Alert {
        key: "alerts.queue-depth",
        severity: Severity::Ticket,
        meaning: "Too many messages wait in a queue: its consumer is slow, stopped or failing.",
        metrics: &[READY],
        only: None,
        limit: Limit::Above(1_000),
    },
    Alert {
        key: "alerts.dead-letters",
        severity: Severity::Ticket,
        meaning: "Dead letters wait for the decision of an operator.",
        metrics: &[DEAD_LETTERS],
        only: None,
        limit: Limit::Above(0),
    },
    Alert {
        key: "alerts.outbox-new",
        severity: Severity::Ticket,
        meaning: "Too many new events wait for their first publish.",
        metrics: &[ROWS],
        only: Some(("status", "NEW")),
        limit: Limit::Above(1_000),
    },
    Alert {
        key: "alerts.outbox-retry",
        severity: Severity::Ticket,
        meaning: "Too many events wait for another publish, because the last one failed.",
        metrics: &[ROWS],
        only: Some(("status", "RETRY")),
        limit: Limit::Above(100),
    },
    Alert {
        key: "alerts.outbox-failed",
        severity: Severity::Ticket,
        meaning: "Events are FAILED: no relay publishes them until an operator decides.",
        metrics: &[ROWS],
        only: Some(("status", "FAILED")),
        limit: Limit::Above(0),
    },
    Alert {
        key: "alerts.publish-failure-rate",
        severity: Severity::Ticket,
        meaning: "Too many publishes of the last 5 minutes were not confirmed.",
        metrics: &[PUBLISH_FAILURES],
        only: None,
        limit: Limit::AbovePercent(5),
    },
    Alert {
        key: "alerts.event-retries",
        severity: Severity::Ticket,
        meaning: "An event that is not settled has been retried too often.",
        metrics: &[MOST_RETRIES],
        only: None,
        limit: Limit::AtLeast(3),
    },
    Alert {
        key: "alerts.oldest-pending",
        severity: Severity::Page,
        meaning: "An event that is due has not been published for too long.",
        metrics: &[OLDEST_DUE],
        only: None,
        limit: Limit::OlderThan(seconds(60)),
    },
    Alert {
        key: "alerts.partition-without-owner",
        severity: Severity::Page,
        meaning: "No relay owns a part of the outbox: its events are not published.",
        metrics: &[WITHOUT_OWNER],
        only: None,
        limit: Limit::For(seconds(30)),
    },
    Alert {
        key: "alerts.broker-unreachable",
        severity: Severity::Page,
        meaning: "The broker cannot be reached, or accepts no messages: events wait in the outbox.",
        metrics: &[BROKER_UNREACHABLE, BROKER_BLOCKED_TIME],
        only: None,
        limit: Limit::OlderThan(seconds(60)),
    },
    Alert {
        key: "alerts.consumer-paused",
        severity: Severity::Page,
        meaning: "The breaker of a consumer is open: its last events failed with the same kind of error.",
        metrics: &[PAUSED_CONSUMERS],
        only: None,
        limit: Limit::For(seconds(30)),
    },
    Alert {
        key: "alerts.storage",
        severity: Severity::Page,
        meaning: "The database refuses writes: disk space, rights, a limit or a read-only mode.",
        metrics: &[STORAGE_REFUSED],
        only: None,
        limit: Limit::NotZero,
    },
    Alert {
        key: "alerts.database-horizon",
        severity: Severity::Ticket,
        meaning: "A transaction of the database is open for too long: the database cannot remove old versions of rows.",
        metrics: &[OLDEST_TRANSACTION],
        only: None,
        limit: Limit::OlderThan(seconds(600)),
    },
    Alert {
        key: "alerts.queue-without-consumer",
        severity: Severity::Page,
        meaning: "Messages wait in a queue that has no consumer.",
        metrics: &[UNATTENDED],
        only: None,
        limit: Limit::For(seconds(60)),
    },
    Alert {
        key: "alerts.job-silent",
        severity: Severity::Ticket,
        meaning: "A periodic job has had no successful run for too many of its intervals.",
        metrics: &[MISSED_RUNS],
        only: None,
        limit: Limit::Above(3),
    },
    Alert {
        key: "alerts.job-behind",
        severity: Severity::Ticket,
        meaning: "A periodic job has left work that was due for too long: it is slower than new work arrives, or it is paused.",
        metrics: &[BEHIND],
        only: None,
        limit: Limit::OlderThan(seconds(86_400)),
    },
    Alert {
        key: "alerts.archive-failed",
        severity: Severity::Ticket,
        meaning: "The archive job has had no successful run for too many of its intervals: the database grows.",
        metrics: &[MISSED_RUNS],
        only: Some(("job", JOB)),
        limit: Limit::Above(3),
    },
    Alert {
        key: "alerts.webhook-dead",
        severity: Severity::Ticket,
        meaning: "Webhook deliveries are DEAD, and nobody has sent them again.",
        metrics: &[WEBHOOK_UNDELIVERED],
        only: None,
        limit: Limit::Above(0),
    },
    Alert {
        key: "alerts.webhook-disabled",
        severity: Severity::Ticket,
        meaning: "Webhook endpoints were disabled because all their deliveries failed.",
        metrics: &[WEBHOOK_DISABLED_FAILING],
        only: None,
        limit: Limit::Above(0),
    },
    Alert {
        key: "alerts.webhook-oldest-due",
        severity: Severity::Ticket,
        meaning: "A webhook delivery that is due has not been sent for too long.",
        metrics: &[WEBHOOK_OLDEST_DUE],
        only: None,
        limit: Limit::OlderThan(seconds(600)),
    },
];
