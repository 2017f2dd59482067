//! The result of one turn: the amount of work, its duration, and the time of each step.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::memory::Memory;
use crate::report::Step;
use crate::series::{Series, per_second};
use crate::statement_counter::StatementTotals;

/// Total time of the steps with one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StepTime {
    time: Duration,
    /// Number of executed statements, if the step is a kind of statement.
    statements: Option<u64>,
}

/// The result of one turn.
#[derive(Debug, Clone, Default)]
pub struct Measurement {
    count: u64,
    duration: Duration,
    /// Number of concurrent workers. The steps of all workers together take at most this number times `duration`.
    workers: u32,
    pub(crate) memory: Option<Memory>,
    steps: BTreeMap<String, StepTime>,
}

impl Measurement {
    /// Creates the result of a turn in which one worker processed `count` orders, events or messages.
    pub fn new(count: u64, duration: Duration) -> Measurement {
        Measurement { count, duration, workers: 1, ..Measurement::default() }
    }

    #[must_use]
    pub fn by_workers(self, workers: u32) -> Measurement {
        Measurement { workers, ..self }
    }

    #[must_use]
    pub(crate) fn with_memory(self, memory: Option<Memory>) -> Measurement {
        Measurement { memory, ..self }
    }

    #[must_use]
    pub fn with_step(mut self, name: &str, time: Duration) -> Measurement {
        self.steps.insert(name.to_owned(), StepTime { time, statements: None });
        self
    }

    #[must_use]
    pub(crate) fn with_steps(mut self, steps: BTreeMap<&'static str, Duration>) -> Measurement {
        for (name, time) in steps {
            self = self.with_step(name, time);
        }
        self
    }

    /// Adds one step for each kind of statement.
    #[must_use]
    pub fn with_statements(mut self, totals: BTreeMap<String, StatementTotals>) -> Measurement {
        for (name, totals) in totals {
            let step = StepTime { time: totals.time, statements: Some(totals.statements) };
            self.steps.insert(name, step);
        }
        self
    }

    /// This result, or the other one if that is faster.
    #[must_use]
    pub(crate) fn or_faster(self, other: Option<Measurement>) -> Measurement {
        match other {
            Some(other) if other.rate() > self.rate() => other,
            Some(_) | None => self,
        }
    }

    fn rate(&self) -> f64 {
        per_second(self.count, self.duration)
    }

    fn per_1000(&self, number: f64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
        let thousands = self.count.max(1) as f64 / 1_000.0;
        number / thousands
    }

    /// Time of all workers that belongs to no step: waiting and computing.
    fn remaining(&self) -> Duration {
        let steps: Duration = self.steps.values().map(|step| step.time).sum();
        (self.duration * self.workers).saturating_sub(steps)
    }
}

/// Rates of the rounds.
pub(crate) fn rates(rounds: &[Measurement]) -> Series {
    Series::new(rounds.iter().map(Measurement::rate).collect())
}

/// Medians of the rounds for each step, scaled to 1,000 orders, events or messages. The longest step is first, the
/// remaining time is last.
pub fn steps(rounds: &[Measurement]) -> Vec<Step> {
    let median = |of: &dyn Fn(&Measurement) -> f64| Series::new(rounds.iter().map(of).collect()).median;
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    let names: BTreeMap<&String, &StepTime> = rounds.iter().flat_map(|round| &round.steps).collect();
    let mut steps: Vec<Step> = names
        .into_iter()
        .map(|(name, step)| {
            let time = |round: &Measurement| {
                round.per_1000(round.steps.get(name).map(|step| ms(step.time)).unwrap_or_default())
            };
            #[allow(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^53")]
            let statements = |round: &Measurement| {
                let count = round.steps.get(name).and_then(|step| step.statements).unwrap_or_default();
                round.per_1000(count as f64)
            };
            Step {
                name: name.clone(),
                ms: median(&time),
                statements: step.statements.is_some().then(|| median(&statements)),
            }
        })
        .collect();
    steps.sort_by(|one, other| other.ms.total_cmp(&one.ms));
    steps.push(Step {
        name: "other (waiting, CPU)".to_owned(),
        ms: median(&|round| round.per_1000(ms(round.remaining()))),
        statements: None,
    });
    steps
}
