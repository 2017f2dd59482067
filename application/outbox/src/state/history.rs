//! Statistics over time: the leader writes the mean and the highest value of each state metric once per minute, and once
//! per ten minutes.

use std::collections::BTreeMap;

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};

use super::sample::Sample;
use crate::outbox::Outbox;
use crate::ports::{Leadership, OutboxUnit, Resolution, StatSample, StoreError, Thousandths};
use crate::transaction::with_tx;

/// Longest label text that is stored, in characters.
const MAX_LABELS: usize = 255;

/// Time after which the report of a process that has ended is removed.
const REPORTS_KEPT_FOR: TimeDelta = TimeDelta::minutes(1);

/// Time for which the samples of a resolution are kept.
fn kept_for(resolution: Resolution) -> TimeDelta {
    match resolution {
        Resolution::Minute => TimeDelta::hours(24),
        Resolution::TenMinutes => TimeDelta::days(14),
    }
}

/// Metric and labels.
type Series = (String, String);

/// Values of one series within a period.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    sum: i64,
    count: i64,
    max: Thousandths,
}

impl Values {
    fn add(&mut self, mean: Thousandths, max: Thousandths) {
        self.max = if self.count == 0 { max } else { self.max.max(max) };
        self.sum = self.sum.saturating_add(mean.0);
        self.count += 1;
    }
}

/// The values of the current minute, and the last ten minutes that were written.
#[derive(Debug, Default)]
pub(super) struct History {
    minute: Option<DateTime<Utc>>,
    values: BTreeMap<Series, Values>,
    ten_minutes: Option<DateTime<Utc>>,
}

impl History {
    /// Adds the samples of one read. If a minute has ended, writes its values; a failed write is repeated after the next
    /// minute, without the values of this one.
    pub(super) async fn add(
        &mut self,
        outbox: &Outbox,
        leadership: &Leadership,
        samples: &[Sample],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let minute = begin_of(Resolution::Minute, now);
        let ended = self.minute.replace(minute).filter(|earlier| *earlier != minute);
        let values = if ended.is_some() { std::mem::take(&mut self.values) } else { BTreeMap::new() };
        // A time is no statistic.
        for sample in samples.iter().filter(|sample| !sample.metric.name.ends_with("timestamp.seconds")) {
            let labels: String = sample.labels_text().chars().take(MAX_LABELS).collect();
            let value = Thousandths::of(sample.value);
            self.values.entry((sample.metric.exported_name(), labels)).or_default().add(value, value);
        }
        let Some(ended) = ended else { return Ok(()) };
        let mut new = stat_samples(Resolution::Minute, ended, values);
        let ten = begin_of(Resolution::TenMinutes, now) - TimeDelta::minutes(10);
        if self.ten_minutes != Some(ten) {
            let until = ten + TimeDelta::minutes(10);
            let minutes =
                outbox.view().await?.outbox_view().stat_samples(Resolution::Minute, ten, until).await?;
            // The minute that has just ended is not in the database yet.
            let last = new.iter().filter(|sample| (ten..until).contains(&sample.at));
            let mut values: BTreeMap<Series, Values> = BTreeMap::new();
            for sample in minutes.iter().chain(last) {
                let series = (sample.metric.clone(), sample.labels.clone());
                values.entry(series).or_default().add(sample.mean, sample.max);
            }
            new.extend(stat_samples(Resolution::TenMinutes, ten, values));
        }
        write(outbox, leadership, new, now).await?;
        self.ten_minutes = Some(ten);
        Ok(())
    }
}

fn stat_samples(
    resolution: Resolution,
    at: DateTime<Utc>,
    values: BTreeMap<Series, Values>,
) -> Vec<StatSample> {
    let sample = |((metric, labels), values): (Series, Values)| StatSample {
        resolution,
        at,
        metric,
        labels,
        mean: Thousandths(values.sum.checked_div(values.count).unwrap_or(0)),
        max: values.max,
    };
    values.into_iter().map(sample).collect()
}

async fn write(
    outbox: &Outbox,
    leadership: &Leadership,
    new: Vec<StatSample>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    with_tx(&outbox.tx, (leadership.clone(), new), move |unit, (leadership, new), _| {
        Box::pin(async move {
            let outbox = unit.outbox();
            if !outbox.fence_leader(leadership).await? {
                return Ok(());
            }
            outbox.add_stat_samples(new).await?;
            for resolution in Resolution::ALL {
                outbox.delete_stat_samples(resolution, now - kept_for(resolution)).await?;
            }
            remove_ended_reports(outbox).await
        })
    })
    .await
}

/// Removes the reports of processes that were killed.
async fn remove_ended_reports(outbox: &mut dyn OutboxUnit) -> Result<(), StoreError> {
    let ended_before = outbox.database_now().await? - REPORTS_KEPT_FOR;
    for report in outbox.process_reports().await? {
        if report.alive_until < ended_before {
            outbox.remove_process_report(&report.process).await?;
        }
    }
    Ok(())
}

/// Begin of the minute, or ten minutes, of this time.
fn begin_of(resolution: Resolution, at: DateTime<Utc>) -> DateTime<Utc> {
    // Only a time in the far future cannot be rounded.
    at.duration_trunc(TimeDelta::seconds(i64::from(resolution.seconds()))).unwrap_or(at)
}
