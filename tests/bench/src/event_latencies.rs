//! Durations from the commit of an order to the confirm and to the effect of its event.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::BenchError;
use crate::port_recorder::EventTimes;
use crate::report::Step;
use crate::series::Series;

/// Durations of the measured events of a round, from the commit of their orders.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    pub(crate) confirm: Vec<Duration>,
    pub(crate) effect: Vec<Duration>,
    /// The stages between commit and effect.
    stages: BTreeMap<&'static str, Vec<Duration>>,
}

impl Latencies {
    /// Adds an event. Its times are ascending, except for races between tasks.
    ///
    /// # Errors
    /// An event without a confirm or an effect makes the round invalid: omitting it would improve the figure.
    pub fn add(&mut self, committed: Instant, times: EventTimes) -> Result<(), BenchError> {
        let missing = || BenchError::Measurement("an event had no effect within the timeout".to_owned());
        let published = times.published.ok_or_else(missing)?;
        let confirmed = times.confirmed.ok_or_else(missing)?;
        let delivered = times.delivered.ok_or_else(missing)?;
        let acked = times.acked.ok_or_else(missing)?;
        self.confirm.push(confirmed.saturating_duration_since(committed));
        self.effect.push(acked.saturating_duration_since(committed));
        for (name, from, to) in [
            ("1: commit to publish", committed, published),
            ("2: publish to delivery", published, delivered),
            ("3: delivery to effect", delivered, acked),
        ] {
            self.stages.entry(name).or_default().push(to.saturating_duration_since(from));
        }
        Ok(())
    }
}

/// The duration that this share of the durations does not exceed (nearest rank), in milliseconds.
pub fn percentile_ms(durations: &[Duration], share: f64) -> f64 {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the index is within the list"
    )]
    let index = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(index).map(Duration::as_secs_f64).unwrap_or_default() * 1_000.0
}

/// The median of each stage.
pub(crate) fn stages(rounds: &[Latencies]) -> Vec<Step> {
    let names: BTreeMap<_, _> = rounds.iter().flat_map(|round| &round.stages).collect();
    names
        .into_keys()
        .map(|name| {
            let durations = rounds.iter().filter_map(|round| round.stages.get(name));
            let medians = durations.map(|durations| percentile_ms(durations, 0.5)).collect();
            Step { name: (*name).to_owned(), ms: Series::new(medians).median, statements: None }
        })
        .collect()
}
