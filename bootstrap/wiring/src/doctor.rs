//! The marketplace's checks of `doctor`, in addition to those of the toolkit.

mod gateway;
mod ids;
mod redis;
mod secrets;

use async_trait::async_trait;
use handover_runtime::config::Sources;
use handover_runtime::doctor::{ApplicationChecks, Check};
use handover_runtime::{archive, webhooks};
use handover_sql::SqlStore;
use marketplace_sql::SqlMarket;

use crate::settings::Config;

pub(crate) struct MarketChecks<'a> {
    pub(crate) config: &'a Config,
    pub(crate) sources: &'a Sources,
}

#[async_trait]
impl ApplicationChecks for MarketChecks<'_> {
    async fn of_tables(&self, store: &SqlStore) -> Vec<Check> {
        ids::checks(&SqlMarket::on(store.clone()), &self.config.database).await
    }

    async fn others(&self) -> Vec<Check> {
        let mut checks = secrets::checks(self.config, self.sources);
        checks.push(webhooks::check(&self.config.webhook, &self.config.database));
        checks.push(archive::check(&self.config.archive).await);
        checks.push(gateway::check(self.config).await);
        checks.extend(redis::check(self.config).await);
        checks
    }
}
