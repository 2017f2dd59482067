//! Monitoring: the state of alerts, what each process reports about itself, and statistics over time.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::error::StoreError;

/// A value in thousandths, as a store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Thousandths(pub i64);

impl Thousandths {
    /// The nearest number of thousandths; a value beyond their range becomes the last one.
    #[allow(clippy::cast_possible_truncation, reason = "`as` saturates")]
    pub fn of(value: f64) -> Thousandths {
        Thousandths((value * 1_000.0).round() as i64)
    }

    /// The value.
    #[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    pub fn value(self) -> f64 {
        self.0 as f64 / 1_000.0
    }
}

/// State of an alert that has started at least once, or was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertRecord {
    /// Name of the alert.
    pub alert: String,
    /// Begin of the last period in which it was active.
    pub started: Option<DateTime<Utc>>,
    /// End of that period; `None`: it is active, if it has started.
    pub ended: Option<DateTime<Utc>>,
    /// The last value that was compared with the limit while it was active.
    pub value: Thousandths,
    /// Labels of that value, such as `queue=loans`; empty if it has none.
    pub subject: String,
    /// The last acknowledgement by an operator.
    pub acknowledgement: Option<Acknowledgement>,
}

impl AlertRecord {
    /// An alert that has never started.
    pub fn new(alert: &str) -> AlertRecord {
        AlertRecord {
            alert: alert.to_owned(),
            started: None,
            ended: None,
            value: Thousandths::default(),
            subject: String::new(),
            acknowledgement: None,
        }
    }

    /// Whether the alert is active.
    pub fn is_active(&self) -> bool {
        self.started.is_some() && self.ended.is_none()
    }

    /// Whether an operator has acknowledged the alert for this time.
    pub fn is_acknowledged(&self, now: DateTime<Utc>) -> bool {
        self.acknowledgement.as_ref().is_some_and(|acknowledgement| acknowledgement.until > now)
    }
}

/// An operator knows of an alert and needs no notification until a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Time until which nobody is notified.
    pub until: DateTime<Utc>,
    /// The operator.
    pub by: String,
    /// Reason given by the operator.
    pub reason: String,
}

/// What a process reports about its last minutes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessReport {
    /// Random id of the run of the process.
    pub process: String,
    /// The report, a JSON object.
    pub report: String,
    /// Time by the database clock after which the report no longer counts: the process has ended, or cannot write.
    pub alive_until: DateTime<Utc>,
}

/// Resolution of statistics over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// One sample per minute.
    Minute,
    /// One sample per ten minutes.
    TenMinutes,
}

impl Resolution {
    /// Every resolution, the finest first.
    pub const ALL: [Resolution; 2] = [Resolution::Minute, Resolution::TenMinutes];

    /// Length of the time that a sample covers, in seconds.
    pub const fn seconds(self) -> u32 {
        match self {
            Resolution::Minute => 60,
            Resolution::TenMinutes => 600,
        }
    }
}

/// The values of one metric within one minute, or ten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatSample {
    /// Length of the time that it covers.
    pub resolution: Resolution,
    /// Begin of that time.
    pub at: DateTime<Utc>,
    /// Name of the metric as it is exported, at most 128 characters.
    pub metric: String,
    /// Its labels, such as `queue=loans,state=x`, at most 255 characters; empty if it has none.
    pub labels: String,
    /// Mean of the values.
    pub mean: Thousandths,
    /// Highest value.
    pub max: Thousandths,
}

/// Reads what monitoring has recorded.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait MonitoringQueries: Send {
    /// The alerts that were ever saved or acknowledged, ordered by name.
    async fn alert_records(&mut self) -> Result<Vec<AlertRecord>, StoreError>;

    /// The reports of all processes that were not removed, also of processes that have ended, ordered by process.
    async fn process_reports(&mut self) -> Result<Vec<ProcessReport>, StoreError>;

    /// Samples of this resolution with `since <= at < until`, ordered by time, metric and labels.
    async fn stat_samples(
        &mut self,
        resolution: Resolution,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<Vec<StatSample>, StoreError>;

    /// The highest number of retries of an event that is neither published nor failed, or neither applied nor dead at one of
    /// its consumers. Looks at no more than some thousand of these events, so that an outage does not make it slow.
    async fn most_retries(&mut self) -> Result<u32, StoreError>;
}

/// Writes what monitoring records.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait MonitoringRepo: Send {
    /// Writes the state of an alert. MUST NOT change an existing acknowledgement.
    async fn save_alert(&mut self, record: &AlertRecord) -> Result<(), StoreError>;

    /// Sets the acknowledgement of an alert. MUST NOT change its state; an alert that was never saved has not started.
    async fn acknowledge_alert(
        &mut self,
        alert: &str,
        acknowledgement: &Acknowledgement,
    ) -> Result<(), StoreError>;

    /// Replaces the report of a process. It counts for another `for_ms` milliseconds of the database clock.
    async fn report_process(&mut self, process: &str, report: &str, for_ms: u32) -> Result<(), StoreError>;

    /// Removes the report of a process that has ended.
    async fn remove_process_report(&mut self, process: &str) -> Result<(), StoreError>;

    /// Adds samples. MUST keep an existing sample of the same resolution, time, metric and labels.
    async fn add_stat_samples(&mut self, samples: &[StatSample]) -> Result<(), StoreError>;

    /// Deletes the samples of this resolution with `at < before`.
    async fn delete_stat_samples(
        &mut self,
        resolution: Resolution,
        before: DateTime<Utc>,
    ) -> Result<(), StoreError>;
}
