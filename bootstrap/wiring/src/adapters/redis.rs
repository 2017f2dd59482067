//! The one connection to Redis, for whatever is kept there.

use std::sync::Arc;

use marketplace::{App, MarketTransactor};
use marketplace_redis::{Link, RedisKeys, Use};

use crate::config::RedisConfig;

/// The connection, if something is kept in Redis.
pub(crate) struct Redis(Option<(Arc<Link>, Vec<Use>)>);

impl Redis {
    /// Connects as soon as Redis is there, and again whenever it was away.
    pub(crate) fn keep(config: Option<&RedisConfig>, tx: &MarketTransactor) -> Redis {
        Redis(config.map(|config| {
            let clock = Arc::clone(&tx.clock);
            let link = Link::keep(config.settings.clone(), config.uses.clone(), clock, &tx.tasks);
            (link, config.uses.clone())
        }))
    }

    /// For token buckets, if they are kept there.
    pub(super) fn for_limits(&self) -> Option<Arc<Link>> {
        self.used_for(Use::Limits)
    }

    /// The application with the idempotency keys of Redis, if they are kept there.
    pub(crate) fn keys_of(&self, app: App) -> App {
        match self.used_for(Use::Keys) {
            Some(link) => app.with_keys(Arc::new(RedisKeys::new(link))),
            None => app,
        }
    }

    fn used_for(&self, purpose: Use) -> Option<Arc<Link>> {
        let (link, uses) = self.0.as_ref()?;
        uses.contains(&purpose).then(|| Arc::clone(link))
    }
}
