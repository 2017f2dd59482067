//! The report: a table for people, JSON for programs.

use handover_runtime::terminal::Output;
use handover_runtime::terminal::output;
use serde::Serialize;

use crate::cli::Mode;
use crate::memory::Memory;
use crate::series::Series;

/// Servers and parameters of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) version: &'static str,
    pub(crate) database: String,
    pub(crate) durability: String,
    pub(crate) broker: String,
    pub(crate) cores: usize,
    pub(crate) connections: u32,
    pub(crate) events: u32,
    pub(crate) batch: u32,
    pub(crate) prefetch: u16,
    pub(crate) rate: u32,
    pub(crate) rounds: u32,
    pub(crate) seed: u64,
}

/// Whether greater or smaller values of a figure are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Better {
    /// Greater values are better, as for a rate.
    More,
    /// Smaller values are better, as for a duration.
    Less,
}

/// A part of the measured work, such as the calls of one port method or all statements of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub name: String,
    /// Median of the rounds.
    pub ms: f64,
    /// Number of executed statements, if the step is a kind of statement.
    pub statements: Option<f64>,
}

/// One figure of the service and of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub(crate) mode: &'static str,
    /// The variant: `8 clients`, `commit to effect, p99, 100 orders/s`.
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    #[serde(rename = "ours")]
    pub(crate) service: Series,
    #[serde(rename = "ceiling")]
    pub(crate) baseline: Series,
    /// Speed of the service divided by that of the baseline: less than 1 if the service is slower.
    pub ratio: f64,
    /// Number of orders, events or messages for which the times of `steps` are given.
    pub(crate) steps_of: u32,
    pub(crate) steps: Vec<Step>,
    #[serde(rename = "ceilingSteps")]
    pub(crate) baseline_steps: Vec<Step>,
    /// Memory of this process during the turns of the service.
    pub(crate) memory: Option<Memory>,
}

impl Figure {
    /// A figure without steps.
    pub fn new(
        mode: Mode,
        what: impl Into<String>,
        (unit, better): (&'static str, Better),
        service: Series,
        baseline: Series,
    ) -> Figure {
        let (numerator, denominator) = match better {
            Better::More => (service.median, baseline.median),
            Better::Less => (baseline.median, service.median),
        };
        let ratio = if denominator > 0.0 { numerator / denominator } else { 0.0 };
        Figure {
            mode: mode.name(),
            what: what.into(),
            unit,
            better,
            service,
            baseline,
            ratio,
            steps_of: 1_000,
            steps: Vec::new(),
            baseline_steps: Vec::new(),
            memory: None,
        }
    }
}

/// All figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) settings: Settings,
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn format(&self, format: Output) -> String {
        match format {
            Output::Json => output::json(self),
            Output::Table => self.table(),
        }
    }

    fn table(&self) -> String {
        let rows = self.figures.iter().map(|figure| {
            vec![
                figure.mode.to_owned(),
                figure.what.clone(),
                three_digits(figure.service.median),
                spread(&figure.service),
                three_digits(figure.baseline.median),
                spread(&figure.baseline),
                figure.unit.to_owned(),
                format!("{:.2}", figure.ratio),
                figure.memory.map(|memory| format!("{:.0} MiB", memory.peak_mib)).unwrap_or_default(),
            ]
        });
        let header = ["", "", "handover", "rounds", "baseline", "rounds", "", "ratio", "memory"];
        let mut text = output::table(&header, rows);
        let with_steps: Vec<&Figure> =
            self.figures.iter().filter(|figure| !figure.steps.is_empty()).collect();
        if !with_steps.is_empty() {
            text.push_str("\ntime per step\n");
        }
        for figure in with_steps {
            text.push_str(&format!("{}, {}: ms for {}\n", figure.mode, figure.what, figure.steps_of));
            text.push_str(&format!("  handover  {}\n", line(&figure.steps)));
            text.push_str(&format!("  baseline  {}\n", line(&figure.baseline_steps)));
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
    let step = |step: &Step| format!("{} {}", step.name, three_digits(step.ms));
    steps.iter().map(step).collect::<Vec<_>>().join(", ")
}

fn spread(series: &Series) -> String {
    format!("{} - {}", three_digits(series.least), three_digits(series.greatest))
}

/// Formats with two decimal places below 10, one below 100, and none otherwise.
pub fn three_digits(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
