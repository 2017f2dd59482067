//! How long some work took, and which part of it what.

use std::collections::BTreeMap;
use std::time::Duration;

use super::memory::Memory;
use super::report::Step;
use super::series::{Series, per_second};
use super::statement_counter::Spent;

/// A part of some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    time: Duration,
    statements: Option<u64>,
}

/// One round.
#[derive(Debug, Clone, Default)]
pub(super) struct Took {
    /// From its beginning to its end.
    all: Duration,
    /// How much was done.
    count: u64,
    /// How many did it side by side.
    hands: u32,
    pub(super) memory: Option<Memory>,
    parts: BTreeMap<String, Part>,
}

impl Took {
    /// So much in so long by one alone.
    pub(super) fn new(count: u64, all: Duration) -> Took {
        Took { all, count, hands: 1, ..Took::default() }
    }

    /// By so many side by side.
    #[must_use]
    pub(super) fn by(self, hands: u32) -> Took {
        Took { hands, ..self }
    }

    /// In so much memory.
    #[must_use]
    pub(super) fn within(self, memory: Option<Memory>) -> Took {
        Took { memory, ..self }
    }

    /// This part of it.
    #[must_use]
    pub(super) fn with(mut self, name: &str, time: Duration) -> Took {
        self.parts.insert(name.to_owned(), Part { time, statements: None });
        self
    }

    /// These parts.
    #[must_use]
    pub(super) fn with_all(mut self, parts: BTreeMap<&'static str, Duration>) -> Took {
        for (name, time) in parts {
            self = self.with(name, time);
        }
        self
    }

    /// These statements.
    #[must_use]
    pub(super) fn with_statements(mut self, spent: BTreeMap<String, Spent>) -> Took {
        self.parts.extend(
            spent
                .into_iter()
                .map(|(name, spent)| (name, Part { time: spent.time, statements: Some(spent.statements) })),
        );
        self
    }

    /// How much a second.
    pub(super) fn rate(&self) -> f64 {
        per_second(self.count, self.all)
    }

    fn per_1000(&self, number: f64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
        let thousands = self.count.max(1) as f64 / 1_000.0;
        number / thousands
    }

    /// What is in none of the parts.
    fn rest(&self) -> Duration {
        let parts: Duration = self.parts.values().map(|part| part.time).sum();
        (self.all * self.hands).saturating_sub(parts)
    }
}

/// The rates of some rounds.
pub(super) fn rates(rounds: &[Took]) -> Series {
    Series::of(rounds.iter().map(Took::rate).collect())
}

/// The parts of some rounds, the longest first, and the rest.
pub(super) fn steps(rounds: &[Took]) -> Vec<Step> {
    let median = |of: &dyn Fn(&Took) -> f64| Series::of(rounds.iter().map(of).collect()).median;
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    let names: BTreeMap<&String, &Part> = rounds.iter().flat_map(|took| &took.parts).collect();
    let mut steps: Vec<Step> = names
        .into_iter()
        .map(|(name, part)| {
            let time = |took: &Took| {
                took.per_1000(took.parts.get(name).map(|part| ms(part.time)).unwrap_or_default())
            };
            #[allow(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^53")]
            let statements = |took: &Took| {
                let statements = took.parts.get(name).and_then(|part| part.statements).unwrap_or_default();
                took.per_1000(statements as f64)
            };
            Step {
                name: name.clone(),
                ms: median(&time),
                statements: part.statements.is_some().then(|| median(&statements)),
            }
        })
        .collect();
    steps.sort_by(|one, two| two.ms.total_cmp(&one.ms));
    steps.push(Step {
        name: "the rest (waiting, the program)".to_owned(),
        ms: median(&|took| took.per_1000(ms(took.rest()))),
        statements: None,
    });
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_for_a_thousand_the_longest_first_and_what_is_left_last() {
        let ms = Duration::from_millis;
        let spent = BTreeMap::from([("commit".to_owned(), Spent { statements: 4, time: ms(30) })]);
        let took = Took::new(2_000, ms(100)).with("publish", ms(50)).with_statements(spent);
        let told: Vec<_> = steps(&[took]).into_iter().map(|it| (it.name, it.ms, it.statements)).collect();
        let expected = [
            ("publish", 25.0, None),
            ("commit", 15.0, Some(2.0)),
            ("the rest (waiting, the program)", 10.0, None),
        ];
        assert_eq!(told, expected.map(|(name, ms, statements)| (name.to_owned(), ms, statements)));
    }

    #[test]
    fn several_hands_have_several_times_the_time() {
        let took = Took::new(1_000, Duration::from_millis(100)).by(4);
        assert_eq!(steps(&[took])[0].ms, 400.0);
    }
}
