//! `doctor`: the checks of the marketplace, in addition to those of the toolkit.

mod gateway;
mod ids;
mod redis;
mod secrets;

use async_trait::async_trait;
use handover_runtime::config::{Configuration, Sources};
use handover_runtime::doctor::{ApplicationChecks, CONFIGURATION, Check, Report, Subject, examine};
use handover_runtime::terminal::warn;
use handover_sql::SqlStore;
use marketplace::queues;
use marketplace_sql::SqlMarket;
use marketplace_wiring::adapters::PARTS;
use marketplace_wiring::config::Config;

use crate::cli::DoctorArgs;

/// Runs all checks.
pub(crate) async fn report(arguments: &DoctorArgs) -> Report {
    let sources = arguments.common.sources(&[arguments.address.flag()]);
    warn(&Config::keys(), &sources);
    let config = match Config::load(&sources) {
        Ok(config) => config,
        // Without a valid configuration the other checks would test the wrong systems.
        Err(errors) => {
            return Report::of(errors.iter().map(|error| Check::refused(CONFIGURATION, error)).collect());
        }
    };
    let subject = Subject {
        description: Config::describe(&sources),
        database: &config.database,
        parts: PARTS,
        broker: &config.broker,
        topology: queues::topology(config.rules.pending_timeout),
        queues_depend_on: Some("order.timeout.pending-minutes"),
        listens: config.listens(),
        application: &MarketChecks { config: &config, sources: &sources },
    };
    examine(&subject).await
}

struct MarketChecks<'a> {
    config: &'a Config,
    sources: &'a Sources,
}

#[async_trait]
impl ApplicationChecks for MarketChecks<'_> {
    async fn of_tables(&self, store: &SqlStore) -> Vec<Check> {
        ids::checks(&SqlMarket::on(store.clone()), &self.config.database).await
    }

    async fn others(&self) -> Vec<Check> {
        let mut checks = secrets::checks(self.config, self.sources);
        checks.push(gateway::check(self.config).await);
        checks.extend(redis::check(self.config).await);
        checks
    }
}
