//! Parameters of a run.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use crate::cli::{BenchArgs, Mode};
use crate::error::{BenchError, usage_error};

/// Duration of a turn in mode `orders`, unless `--seconds` is given.
const ORDERS_TURN: Duration = Duration::from_millis(1_500);
/// Duration of all service turns in mode `latency` together, unless `--seconds` is given.
const LATENCY: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) modes: Vec<Mode>,
    /// Number of events in a backlog.
    pub(crate) events: u32,
    /// Duration of a turn in mode `orders`.
    pub(crate) orders_turn: Duration,
    /// Duration of all service turns in mode `latency` together.
    pub(crate) latency: Duration,
    pub(crate) batch: NonZeroU32,
    pub(crate) prefetch: NonZeroU16,
    pub(crate) clients: Vec<u32>,
    /// Orders placed per second in mode `latency`.
    pub(crate) rate: u32,
    /// Numbers of settled events in mode `growth`; each number gives two figures.
    pub(crate) rows: Vec<u64>,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
}

impl Plan {
    pub(crate) fn from_arguments(arguments: &BenchArgs) -> Result<Plan, BenchError> {
        let seconds = arguments.seconds.map(Duration::try_from_secs_f64).transpose().map_err(|cause| {
            usage_error(format!("--seconds: {cause}"), "set a duration in seconds, such as 10 or 0.5")
        })?;
        let mut modes = arguments.modes.clone();
        if modes.is_empty() {
            modes = Mode::ALL.to_vec();
        }
        Ok(Plan {
            modes,
            events: arguments.events,
            orders_turn: seconds.unwrap_or(ORDERS_TURN),
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

    /// Turns of a figure: one of the service and one of the baseline in each round.
    pub(crate) fn turns(&self) -> usize {
        2 * usize::try_from(self.rounds).unwrap_or_default()
    }
}
