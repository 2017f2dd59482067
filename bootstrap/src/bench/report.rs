//! rough
use serde::Serialize;

use super::ceiling::Took;
use super::measure::{Series, per_second};
use crate::cli::Output;
use crate::output;

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Settings {}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figure {
    name: String,
    unit: &'static str,
    ours: Series,
    ceiling: Series,
    ratio: f64,
    steps: Vec<(String, f64)>,
}

impl Figure {
    pub(super) fn new(name: String, unit: &'static str, ours: Vec<f64>, ceiling: Vec<f64>) -> Figure {
        let (ours, ceiling) = (Series::of(ours), Series::of(ceiling));
        let ratio = ours.median / ceiling.median;
        Figure { name, unit, ours, ceiling, ratio, steps: Vec::new() }
    }

    pub(super) fn of_rates(name: &str, unit: &'static str, count: u64, ours: &[Took], ceiling: &[Took]) -> Figure {
        let rates = |took: &[Took]| took.iter().map(|took| per_second(count, took.all)).collect::<Vec<_>>();
        let mut figure = Figure::new(name.to_owned(), unit, rates(ours), rates(ceiling));
        for (who, tooks) in [("ours", ours), ("ceiling", ceiling)] {
            if let Some(took) = tooks.last() {
                for (step, time) in &took.steps {
                    figure.steps.push((format!("{who} {step} ms/1000"), time.as_secs_f64() * 1e6 / count as f64));
                }
            }
        }
        figure
    }
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    settings: Settings,
    figures: Vec<Figure>,
}

impl Report {
    pub(super) fn new(settings: Settings, figures: Vec<Figure>) -> Report {
        Report { settings, figures }
    }
    pub(super) fn written(&self, _form: Output) -> String {
        output::json(self)
    }
}
