//! The report as a table or as JSON, and the instructions that `--keep` prints.

use std::path::Path;

use serde::Serialize;

use super::client::Api;
use super::figures::Figures;
use super::plan::Plan;
use super::settings;
use super::verdict::Promise;
use handover_runtime::terminal::Output;
use handover_runtime::terminal::output;

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
    /// `folder` is the folder of the demo if it is kept.
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

    pub(super) fn broken(&self) -> impl Iterator<Item = &Promise> {
        self.promises.iter().filter(|promise| !promise.kept)
    }

    pub(super) fn render(&self, format: Output) -> String {
        match format {
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
            "{table}\n{kept} of {} promises kept; {}\nto repeat this day: handover demo --orders {} --seed {}\n",
            self.promises.len(),
            self.figures.line(),
            self.orders,
            self.seed,
        )
    }
}

/// Instructions for inspecting the service that `--keep` leaves running.
pub(super) fn instructions(folder: &Path, api: &Api, plan: &Plan) -> String {
    let base = api.base();
    let buyer = plan.deals.first().map_or(plan.lamp.seller, |deal| deal.buyer);
    let program = std::env::args().next().unwrap_or_else(|| "handover".to_owned());
    format!(
        r#"
The service keeps running on {base} until it is stopped (Ctrl-C); its folder is kept: {folder}
  demo.log is its log, handover.db its database, handover.toml its configuration

Examples, as an operator and as a buyer:
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
