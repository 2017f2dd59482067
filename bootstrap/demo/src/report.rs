//! The verdict as it is written: a table for a person, JSON for a program; and what to try on a market that is kept.

use std::path::Path;

use serde::Serialize;

use super::client::Api;
use super::figures::Figures;
use super::plan::Plan;
use super::settings;
use super::verdict::Promise;
use marketplace_wiring::terminal::Output;
use marketplace_wiring::terminal::output;

/// Everything that is said about a day.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    verdict: &'static str,
    broken: Vec<&'static str>,
    promises: Vec<Promise>,
    figures: Figures,
    seed: u64,
    orders: usize,
    folder: Option<String>,
}

impl Report {
    /// Of these promises; the folder where it is kept.
    pub(super) fn new(
        promises: Vec<Promise>,
        figures: Figures,
        seed: u64,
        orders: usize,
        folder: Option<&Path>,
    ) -> Report {
        let broken: Vec<&str> =
            promises.iter().filter(|promise| !promise.kept).map(|promise| promise.name).collect();
        let verdict = if broken.is_empty() { "kept" } else { "broken" };
        let folder = folder.map(|folder| folder.display().to_string());
        Report { verdict, broken, promises, figures, seed, orders, folder }
    }

    /// The promises that were broken.
    pub(super) fn broken(&self) -> impl Iterator<Item = &Promise> {
        self.promises.iter().filter(|promise| !promise.kept)
    }

    /// In this form.
    pub(super) fn written(&self, form: Output) -> String {
        match form {
            Output::Json => output::json(self),
            Output::Table => self.table(),
        }
    }

    fn table(&self) -> String {
        let rows = self.promises.iter().map(|promise| {
            let kept = if promise.kept { "kept" } else { "BROKEN" };
            vec![promise.name.to_owned(), promise.promised.clone(), promise.found.clone(), kept.to_owned()]
        });
        let table = output::table(&["promise", "promised", "in the database", ""], rows);
        let kept = self.promises.len() - self.broken.len();
        format!(
            "{table}\n{kept} of {} promises kept; {}\nthe same day again: handover demo --orders {} --seed {}\n",
            self.promises.len(),
            self.figures.line(),
            self.orders,
            self.seed,
        )
    }
}

/// What to try on a market that is kept.
pub(super) fn greeting(folder: &Path, api: &Api, plan: &Plan) -> String {
    let base = api.base();
    let buyer = plan.deals.first().map_or(plan.lamp.seller, |deal| deal.buyer);
    let program = std::env::args().next().unwrap_or_else(|| "handover".to_owned());
    format!(
        r#"
The market stays open on {base} until it is stopped (Ctrl-C); its folder stays: {folder}
  demo.log is the log of the day, handover.db holds every row, handover.toml says how it was played

Look around, as an operator and as a buyer:
  operator="Authorization: Bearer {operator}"
  buyer="Authorization: Bearer {buyer}"
  curl -s "{base}/api/v1/ops/dead-letters" -H "$operator"
  curl -s "{base}/api/v1/ops/outbox?limit=5" -H "$operator"
  curl -s "{base}/api/v1/ops/stats" -H "$operator"
  curl -s "{base}/api/v1/orders" -H "$buyer"
  curl -s "{base}/api/v1/notifications" -H "$buyer"
  {program} outbox list --config {config} --limit 5
"#,
        folder = folder.display(),
        operator = api.token(plan.operator),
        buyer = api.token(buyer),
        config = settings::path(folder).display(),
    )
}
