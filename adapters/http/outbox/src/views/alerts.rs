//! Alerts, and statistics over time.

use handover_outbox::operations::{AlertState, StatSeries, StatValue};
use handover_outbox::ports::Thousandths;

use super::Listed;
use super::time::Time;
use crate::openapi::kinds;

crate::views! {
    /// An alert with its state.
    pub AlertView as Alert {
        alert: String,
        /// `page`: someone has to act now; `ticket`: in the next days.
        severity: String,
        active: bool,
        /// Begin of the last period in which it was active.
        started_at: Option<Time>,
        /// End of that period; null while it is active.
        ended_at: Option<Time>,
        /// The highest value that was compared with the limit.
        value: Option<f64>,
        /// Labels of that value, such as `queue=loans`.
        subject: Option<String>,
        /// The limit, as it is configured.
        limit: String,
        /// Whether an operator has acknowledged the alert for now.
        acknowledged: bool,
        acknowledged_until: Option<Time>,
        acknowledged_by: Option<String>,
        reason: Option<String>,
        /// What it means while it is active.
        meaning: String,
    }
}

impl Listed for AlertView {
    const COLUMNS: &'static [&'static str] =
        &["alert", "severity", "active", "startedAt", "value", "subject", "limit", "acknowledgedUntil"];
}

impl From<AlertState> for AlertView {
    fn from(AlertState { alert, record, is_acknowledged }: AlertState) -> AlertView {
        let active = record.is_active();
        let has_started = record.started.is_some();
        let acknowledgement = record.acknowledgement;
        AlertView {
            alert: alert.name().to_owned(),
            severity: alert.severity.as_str().to_owned(),
            active,
            started_at: record.started.map(Time),
            ended_at: record.ended.map(Time),
            value: has_started.then(|| record.value.value()),
            subject: (!record.subject.is_empty()).then_some(record.subject),
            limit: alert.limit.to_string(),
            acknowledged: is_acknowledged,
            acknowledged_until: acknowledgement.as_ref().map(|it| Time(it.until)),
            acknowledged_by: acknowledgement.as_ref().map(|it| it.by.clone()),
            reason: acknowledgement.map(|it| it.reason),
            meaning: alert.meaning.to_owned(),
        }
    }
}

crate::views! {
    /// The values of one metric over time.
    pub StatSeriesView as StatSeries {
        /// Name of the metric, as it is exported.
        metric: String = kinds::MetricName,
        /// Its labels, such as `queue=loans`; empty if it has none.
        labels: String,
        /// At most 120 values, in the order of time.
        values: Vec<StatValueView>,
    }
}

crate::views! {
    /// The mean and the highest value of a period.
    StatValueView as StatValue {
        /// Begin of the period.
        at: Time,
        mean: f64,
        max: f64,
    }
}

impl From<StatSeries> for StatSeriesView {
    fn from(StatSeries { metric, labels, values }: StatSeries) -> StatSeriesView {
        let one = |StatValue { at, mean, max }| StatValueView {
            at: Time(at),
            mean: mean.value(),
            max: max.value(),
        };
        StatSeriesView { metric, labels, values: values.into_iter().map(one).collect() }
    }
}

crate::views! {
    /// The values of one metric over time, in one row.
    pub StatSummaryView as StatSummary {
        metric: String,
        labels: String,
        values: usize,
        lowest: Option<f64>,
        mean: Option<f64>,
        highest: Option<f64>,
        last: Option<f64>,
    }
}

impl Listed for StatSummaryView {
    const COLUMNS: &'static [&'static str] =
        &["metric", "labels", "values", "lowest", "mean", "highest", "last"];
}

impl From<StatSeries> for StatSummaryView {
    fn from(StatSeries { metric, labels, values }: StatSeries) -> StatSummaryView {
        let means = || values.iter().map(|one| one.mean);
        let sum: i64 = means().map(|mean| mean.0).sum();
        let mean = i64::try_from(values.len()).ok().and_then(|count| sum.checked_div(count)).map(Thousandths);
        let value = |value: Option<Thousandths>| value.map(Thousandths::value);
        StatSummaryView {
            values: values.len(),
            lowest: value(means().min()),
            mean: value(mean),
            highest: value(values.iter().map(|one| one.max).max()),
            last: value(means().next_back()),
            metric,
            labels,
        }
    }
}

impl Listed for StatSeriesView {
    const COLUMNS: &'static [&'static str] = &["metric", "labels"];
}
