//! How figures are taken: by turns, several times; the median counts, and the spread is told.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use serde::Serialize;

use super::error::refuse;
use crate::cli::{BenchArgs, BenchMode};
use handover::Failure;
use handover::progress::Progress;

/// What is to be measured, and how.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) modes: Vec<BenchMode>,
    /// Events of a backlog.
    pub(super) events: u32,
    /// How long a turn of `orders` lasts.
    pub(super) turn: Duration,
    /// How long `latency` lasts.
    pub(super) latency: Duration,
    pub(super) batch: NonZeroU32,
    pub(super) prefetch: NonZeroU16,
    pub(super) clients: Vec<u32>,
    pub(super) rate: u32,
    pub(super) rows: Vec<u64>,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// How long a turn of `orders` lasts unless told otherwise.
const TURN: Duration = Duration::from_millis(1_500);
/// How long `latency` lasts unless told otherwise.
const LATENCY: Duration = Duration::from_secs(20);

impl Plan {
    pub(super) fn of(arguments: &BenchArgs) -> Result<Plan, Failure> {
        let seconds = arguments.seconds.map(Duration::try_from_secs_f64).transpose().map_err(|cause| {
            refuse(&format!("--seconds: {cause}"), "name a length in seconds, such as 10 or 0.5")
        })?;
        let mut modes = arguments.modes.clone();
        if modes.is_empty() {
            modes = BenchMode::ALL.to_vec();
        }
        Ok(Plan {
            modes,
            events: arguments.events,
            turn: seconds.unwrap_or(TURN),
            latency: seconds.unwrap_or(LATENCY),
            batch: arguments.batch,
            prefetch: arguments.prefetch,
            clients: arguments.clients.clone(),
            rate: arguments.rate,
            rows: arguments.rows.clone(),
            rounds: arguments.rounds,
            seed: arguments.seed,
        })
    }

    /// How many turns a figure takes.
    pub(super) fn turns(&self) -> usize {
        2 * usize::try_from(self.rounds).unwrap_or_default()
    }
}

/// What several rounds found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Series {
    /// The one in the middle.
    pub(super) median: f64,
    /// The least.
    pub(super) least: f64,
    /// The greatest.
    pub(super) greatest: f64,
    /// All of them, in the order of the rounds.
    pub(super) rounds: Vec<f64>,
}

impl Series {
    /// Of these rounds; of none, zeros.
    pub(super) fn of(rounds: Vec<f64>) -> Series {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let last = sorted.len().saturating_sub(1);
        let median = (at(last / 2) + at(sorted.len() / 2)) / 2.0;
        Series { median, least: at(0), greatest: at(last), rounds }
    }
}

/// How many a second.
pub(super) fn per_second(count: u64, took: Duration) -> f64 {
    match took.is_zero() {
        true => 0.0,
        #[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
        false => count as f64 / took.as_secs_f64(),
    }
}

/// Rounds by turns: ours, the ceiling, ours, ... Each turn is a step of the phase.
pub(super) async fn by_turns<T>(
    rounds: u32,
    progress: &Progress,
    mut ours: impl AsyncFnMut() -> Result<T, Failure>,
    mut ceiling: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<(Vec<T>, Vec<T>), Failure> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        first.push(ours().await?);
        progress.step();
        second.push(ceiling().await?);
        progress.step();
    }
    Ok((first, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_an_outlier_moves_nothing() {
        let series = Series::of(vec![100.0, 1.0, 3.0]);
        assert_eq!((series.median, series.least, series.greatest), (3.0, 1.0, 100.0));
        assert_eq!(series.rounds, [100.0, 1.0, 3.0]);
        assert_eq!(Series::of(vec![1.0, 2.0]).median, 1.5);
        assert_eq!(Series::of(Vec::new()).median, 0.0);
    }

    #[test]
    fn a_rate_of_no_time_is_no_rate() {
        assert_eq!(per_second(10, Duration::from_secs(4)), 2.5);
        assert_eq!(per_second(10, Duration::ZERO), 0.0);
    }
}
