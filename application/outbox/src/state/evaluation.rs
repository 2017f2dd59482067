//! Evaluation of alerts.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::sample::Sample;
use crate::alert::Alert;
use crate::ports::{AlertRecord, Thousandths};

/// Evaluations in a row after which an alert starts or ends.
const IN_A_ROW: u32 = 2;

/// What the process that leads remembers between two evaluations. A new leader starts anew.
#[derive(Debug, Default)]
pub(super) struct Evaluator {
    streaks: BTreeMap<&'static str, Streak>,
}

/// Evaluations in a row with the same result.
#[derive(Debug, Clone, Copy)]
struct Streak {
    holds: bool,
    evaluations: u32,
    since: DateTime<Utc>,
}

/// What an evaluation changes in the state of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    Started,
    Ended,
    /// The alert stays active, with another value.
    Updated,
}

/// The next state of an alert, if it changes.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) alert: Alert,
    pub(super) transition: Transition,
    pub(super) record: AlertRecord,
    pub(super) value: f64,
}

impl Evaluator {
    /// Compares the samples with the limits. An alert whose metrics have no sample, because they could not be read, is not
    /// evaluated. `stored` are the records of the last evaluation.
    pub(super) fn evaluate(
        &mut self,
        alerts: &[Alert],
        samples: &[Sample],
        stored: &[AlertRecord],
        now: DateTime<Utc>,
    ) -> Vec<Change> {
        alerts
            .iter()
            .filter_map(|alert| {
                let (value, subject) = highest(alert, samples)?;
                let streak = self.next_streak(alert, alert.limit.is_exceeded_by(value), now);
                let lasts = (now - streak.since).to_std().unwrap_or_default();
                let has_run = streak.evaluations >= IN_A_ROW;
                let record = stored.iter().find(|record| record.alert == alert.name());
                let record = record.cloned().unwrap_or_else(|| AlertRecord::new(alert.name()));
                let current = AlertRecord { value: Thousandths::of(value), subject, ..record.clone() };
                let (transition, next) = match (record.is_active(), streak.holds) {
                    (false, true) if has_run && lasts >= alert.limit.pending() => {
                        (Transition::Started, AlertRecord { started: Some(now), ended: None, ..current })
                    }
                    (true, false) if has_run => {
                        (Transition::Ended, AlertRecord { ended: Some(now), ..record })
                    }
                    (true, true) if current != record => (Transition::Updated, current),
                    (true | false, true | false) => return None,
                };
                Some(Change { alert: *alert, transition, record: next, value })
            })
            .collect()
    }

    fn next_streak(&mut self, alert: &Alert, holds: bool, now: DateTime<Utc>) -> Streak {
        let begins = Streak { holds, evaluations: 0, since: now };
        let streak = self.streaks.entry(alert.key).or_insert(begins);
        if streak.holds != holds {
            *streak = begins;
        }
        streak.evaluations = streak.evaluations.saturating_add(1);
        *streak
    }
}

/// The highest value of the metrics of an alert, and its labels.
fn highest(alert: &Alert, samples: &[Sample]) -> Option<(f64, String)> {
    let counts = |sample: &&Sample| {
        let is_metric = alert.metrics.iter().any(|metric| metric.name == sample.metric.name);
        let mut labels = sample.metric.labels.iter().zip(&sample.labels);
        is_metric && alert.only.is_none_or(|only| labels.any(|(name, value)| (*name, value.as_str()) == only))
    };
    let highest = samples.iter().filter(counts).max_by(|a, b| a.value.total_cmp(&b.value))?;
    Some((highest.value, highest.labels_text()))
}
