//! Alerts: conditions of the deployment that a person should know.
//!
//! The process that reads the state of the deployment (`state`) compares it with the limits of the alerts. An
//! alert starts after two evaluations in which it holds, and ends after two in which it does not. Its state is in the
//! database: each alert starts once in the deployment, and every process can show it.
//!
//! An application adds its own alerts to those of the toolkit ([`state::ALERTS`](crate::state::ALERTS)). An [`Alert`] is a
//! limit of state metrics.

use std::fmt;
use std::time::Duration;

use crate::metrics::Metric;

/// Name of the job that reads the state and evaluates the alerts.
pub(crate) const EVALUATION: &str = "state-metrics";

/// An alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// Key of the setting of its limit: `alerts.`, followed by the name of the alert.
    pub key: &'static str,
    /// How urgent it is.
    pub severity: Severity,
    /// What it means while it is active: one sentence.
    pub meaning: &'static str,
    /// The metrics whose highest value is compared with the limit.
    pub metrics: &'static [Metric],
    /// Only series with this value of a label are compared, such as `("status", "NEW")`.
    pub only: Option<(&'static str, &'static str)>,
    /// The default limit.
    pub limit: Limit,
}

impl Alert {
    /// Name of the alert.
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }
}

/// How urgent an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Someone has to act now.
    Page,
    /// Someone has to act in the next days.
    Ticket,
}

impl Severity {
    /// Value of the label `severity`, and of the field in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Page => "page",
            Severity::Ticket => "ticket",
        }
    }
}

/// The limit of an alert. It holds while the highest value exceeds the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The value, a number, is greater than this.
    Above(u64),
    /// The value, a number, is at least this.
    AtLeast(u64),
    /// The value, a ratio between 0 and 1, is more than this percentage.
    AbovePercent(u64),
    /// The value, an age in seconds, is more than this.
    OlderThan(Duration),
    /// The value is not 0, in each evaluation of more than this time.
    For(Duration),
    /// The value is not 0. This limit is no setting.
    NotZero,
}

impl Limit {
    pub(crate) fn is_exceeded_by(self, value: f64) -> bool {
        #[allow(clippy::cast_precision_loss, reason = "a limit is far below 2^53")]
        match self {
            Limit::Above(limit) => value > limit as f64,
            Limit::AtLeast(limit) => value >= limit as f64,
            Limit::AbovePercent(limit) => value * 100.0 > limit as f64,
            Limit::OlderThan(limit) => value > limit.as_secs_f64(),
            Limit::For(_) | Limit::NotZero => value > 0.0,
        }
    }

    /// A value with the unit of this limit, for people.
    pub(crate) fn shown(self, value: f64) -> String {
        match self {
            Limit::Above(_) | Limit::AtLeast(_) | Limit::For(_) | Limit::NotZero => {
                format!("{}", (value * 10.0).round() / 10.0)
            }
            Limit::AbovePercent(_) => format!("{:.1} %", value * 100.0),
            Limit::OlderThan(_) => format!("{value:.0} s"),
        }
    }

    /// The time for which the limit must be exceeded before the alert starts.
    pub(crate) const fn pending(self) -> Duration {
        match self {
            Limit::For(time) => time,
            Limit::Above(_)
            | Limit::AtLeast(_)
            | Limit::AbovePercent(_)
            | Limit::OlderThan(_)
            | Limit::NotZero => Duration::ZERO,
        }
    }
}

/// The limit as its setting.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Above(limit) | Limit::AtLeast(limit) | Limit::AbovePercent(limit) => write!(f, "{limit}"),
            Limit::NotZero => f.write_str("0"),
            Limit::OlderThan(time) | Limit::For(time) => {
                let milliseconds = time.subsec_millis();
                match (time.as_secs(), milliseconds) {
                    (seconds, 0) if seconds > 0 && seconds % 3_600 == 0 => write!(f, "{}h", seconds / 3_600),
                    (seconds, 0) if seconds > 0 && seconds % 60 == 0 => write!(f, "{}m", seconds / 60),
                    (seconds, 0) => write!(f, "{seconds}s"),
                    (..) => write!(f, "{}ms", time.as_millis()),
                }
            }
        }
    }
}
