//! Statistics over time.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::OperationError;
use crate::outbox::Outbox;
use crate::ports::{Resolution, StatSample, Thousandths};

/// Maximum number of values of a series, enough for a chart.
pub const MAX_VALUES: i64 = 120;

/// The values of one metric over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatSeries {
    /// Name of the metric as it is exported.
    pub metric: String,
    /// Its labels, such as `queue=loans`; empty if it has none.
    pub labels: String,
    /// The values in the order of time.
    pub values: Vec<StatValue>,
}

/// The mean and the highest value of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatValue {
    /// Begin of the period.
    pub at: DateTime<Utc>,
    /// Mean of the values.
    pub mean: Thousandths,
    /// Highest value.
    pub max: Thousandths,
}

/// The statistics since a time, of one metric or of all, ordered by metric and labels. Samples of one minute exist for 24
/// hours, of ten minutes for 14 days; the values of a longer time cover several of them, so that a series has at most
/// [`MAX_VALUES`]. They cover all tenants; every operator may see them. Not recorded in the audit log: programs poll them.
pub async fn stat_history(
    outbox: &Outbox,
    since: DateTime<Utc>,
    metric: Option<&str>,
) -> Result<Vec<StatSeries>, OperationError> {
    let now = outbox.now();
    let resolution =
        if now - since <= TimeDelta::hours(24) { Resolution::Minute } else { Resolution::TenMinutes };
    let samples = outbox.view().await?.outbox_view().stat_samples(resolution, since, now).await?;
    let seconds = i64::from(resolution.seconds());
    // A whole number of samples.
    let step = seconds * (now - since).num_seconds().div_euclid(seconds * MAX_VALUES).saturating_add(1);
    let mut series: BTreeMap<(String, String), BTreeMap<i64, Vec<StatSample>>> = BTreeMap::new();
    for sample in samples.into_iter().filter(|sample| metric.is_none_or(|metric| sample.metric == metric)) {
        let period = (sample.at - since).num_seconds().div_euclid(step);
        let key = (sample.metric.clone(), sample.labels.clone());
        series.entry(key).or_default().entry(period).or_default().push(sample);
    }
    let series = series.into_iter().map(|((metric, labels), periods)| {
        let values = periods.into_values().filter_map(|samples| value_of(&samples)).collect();
        StatSeries { metric, labels, values }
    });
    Ok(series.collect())
}

/// The value of these samples.
fn value_of(samples: &[StatSample]) -> Option<StatValue> {
    let sum = samples.iter().fold(0_i64, |sum, sample| sum.saturating_add(sample.mean.0));
    let mean = Thousandths(sum.checked_div(i64::try_from(samples.len()).ok()?)?);
    Some(StatValue { at: samples.first()?.at, mean, max: samples.iter().map(|sample| sample.max).max()? })
}
