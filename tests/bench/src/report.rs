//! What was measured, as it is written: a table for a person, JSON for a program.

use serde::Serialize;

use super::memory::Memory;
use super::series::Series;
use crate::cli::BenchMode;
use handover::cli::Output;
use handover::output;

/// On what, and how, it was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Settings {
    pub(super) version: &'static str,
    pub(super) database: String,
    pub(super) durability: String,
    pub(super) broker: String,
    pub(super) cores: usize,
    pub(super) connections: u32,
    pub(super) events: u32,
    pub(super) batch: u32,
    pub(super) prefetch: u16,
    pub(super) rate: u32,
    pub(super) rounds: u32,
    pub(super) seed: u64,
}

/// What is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Better {
    /// A rate.
    More,
    /// A time.
    Less,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    /// What is done in it.
    pub(super) name: String,
    /// How long it takes, in milliseconds: the median of the rounds.
    pub(super) ms: f64,
    /// How many statements, where it is statements.
    pub(super) statements: Option<f64>,
}

/// One figure beside its ceiling.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figure {
    pub(super) mode: &'static str,
    /// What exactly: `8 clients`, `commit to effect p99`.
    pub(super) what: String,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) ours: Series,
    pub(super) ceiling: Series,
    /// How near ours comes to the ceiling; 1 is there.
    pub(super) ratio: f64,
    /// Where the time goes, for so many.
    pub(super) steps_of: u32,
    /// Where the time goes.
    pub(super) steps: Vec<Step>,
    /// Where the ceiling's goes.
    pub(super) ceiling_steps: Vec<Step>,
    /// Of this process, while it worked.
    pub(super) memory: Option<Memory>,
}

impl Figure {
    /// Without steps.
    pub(super) fn new(
        mode: BenchMode,
        what: impl Into<String>,
        (unit, better): (&'static str, Better),
        ours: Series,
        ceiling: Series,
    ) -> Figure {
        let (near, far) = match better {
            Better::More => (ours.median, ceiling.median),
            Better::Less => (ceiling.median, ours.median),
        };
        let ratio = if far > 0.0 { near / far } else { 0.0 };
        let what = what.into();
        Figure {
            mode: mode.name(),
            what,
            unit,
            better,
            ours,
            ceiling,
            ratio,
            steps_of: 1_000,
            steps: Vec::new(),
            ceiling_steps: Vec::new(),
            memory: None,
        }
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) settings: Settings,
    pub(super) figures: Vec<Figure>,
}

impl Report {
    /// In this form.
    pub(super) fn written(&self, form: Output) -> String {
        match form {
            Output::Json => output::json(self),
            Output::Table => self.table(),
        }
    }

    fn table(&self) -> String {
        let rows = self.figures.iter().map(|figure| {
            vec![
                figure.mode.to_owned(),
                figure.what.clone(),
                shown(figure.ours.median),
                spread(&figure.ours),
                shown(figure.ceiling.median),
                spread(&figure.ceiling),
                figure.unit.to_owned(),
                format!("{:.2}", figure.ratio),
                figure.memory.map(|it| format!("{:.0} MiB", it.peak_mib)).unwrap_or_default(),
            ]
        });
        let header = ["", "", "handover", "rounds", "ceiling", "rounds", "", "ratio", "memory"];
        let mut text = output::table(&header, rows);
        let steps: Vec<&Figure> = self.figures.iter().filter(|figure| !figure.steps.is_empty()).collect();
        if !steps.is_empty() {
            text.push_str("\nwhere the time goes\n");
        }
        for figure in steps {
            text.push_str(&format!("{}, {}: ms for {}\n", figure.mode, figure.what, figure.steps_of));
            text.push_str(&format!("  handover  {}\n", line(&figure.steps)));
            text.push_str(&format!("  ceiling   {}\n", line(&figure.ceiling_steps)));
        }
        let Settings { version, database, durability, broker, cores, connections, .. } = &self.settings;
        text.push_str(&format!(
            "\nhandover {version}, {database} ({durability}), {broker}\n{cores} cores, {connections} connections, {} \
             events, batch {}, prefetch {}, {} rounds\n",
            self.settings.events, self.settings.batch, self.settings.prefetch, self.settings.rounds,
        ));
        text
    }
}

fn line(steps: &[Step]) -> String {
    let step = |step: &Step| format!("{} {}", step.name, shown(step.ms));
    steps.iter().map(step).collect::<Vec<_>>().join(", ")
}

fn spread(series: &Series) -> String {
    format!("{} - {}", shown(series.least), shown(series.greatest))
}

/// Three figures that count.
fn shown(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(better: Better) -> Figure {
        Figure::new(BenchMode::Drain, "x", ("u", better), Series::of(vec![50.0]), Series::of(vec![100.0]))
    }

    #[test]
    fn a_ratio_of_one_is_the_ceiling_whichever_way_is_better() {
        assert_eq!((figure(Better::More).ratio, figure(Better::Less).ratio), (0.5, 2.0));
        let none = Figure::new(
            BenchMode::Drain,
            "x",
            ("u", Better::More),
            Series::of(vec![1.0]),
            Series::of(vec![]),
        );
        assert_eq!(none.ratio, 0.0);
    }

    #[test]
    fn figures_are_as_long_as_they_are_certain() {
        assert_eq!([123.4, 12.34, 1.234].map(shown), ["123", "12.3", "1.23"]);
    }
}
