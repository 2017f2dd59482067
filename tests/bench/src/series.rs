//! Results of several rounds: the median is reported with the least and the greatest result.

use std::time::Duration;

use handover_runtime::terminal::progress::Progress;
use serde::Serialize;

use crate::error::BenchError;

/// Results of several rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
    /// All results in the order of the rounds.
    pub rounds: Vec<f64>,
}

impl Series {
    /// Summarises the results of the rounds; if there are no rounds, all values are 0.
    pub fn new(rounds: Vec<f64>) -> Series {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        let last = sorted.len().saturating_sub(1);
        let median = (at(last / 2) + at(sorted.len() / 2)) / 2.0;
        Series { median, least: at(0), greatest: at(last), rounds }
    }
}

/// Rate per second; 0 for a duration of 0.
pub fn per_second(count: u64, duration: Duration) -> f64 {
    match duration.is_zero() {
        true => 0.0,
        #[allow(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
        false => count as f64 / duration.as_secs_f64(),
    }
}

/// Results of the service and of the baseline, round by round.
pub(crate) struct Rounds<T> {
    pub(crate) service: Vec<T>,
    pub(crate) baseline: Vec<T>,
}

/// Runs the service and the baseline in alternating turns, so that a change of the machine's load affects both. The
/// progress display advances by one after each turn.
pub(crate) async fn alternate<T>(
    rounds: u32,
    progress: &Progress,
    mut service: impl AsyncFnMut() -> Result<T, BenchError>,
    mut baseline: impl AsyncFnMut() -> Result<T, BenchError>,
) -> Result<Rounds<T>, BenchError> {
    let mut done = Rounds { service: Vec::new(), baseline: Vec::new() };
    for _ in 0..rounds {
        done.service.push(service().await?);
        progress.step();
        done.baseline.push(baseline().await?);
        progress.step();
    }
    Ok(done)
}
