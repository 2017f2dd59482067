//! The Redis connection, shared by rate limits and idempotency keys.

use std::sync::Arc;

use marketplace::{App, MarketTransactor};
use marketplace_redis::{RedisConnection, RedisKeys, RedisUse};

use crate::settings::RedisConfig;

/// The connection and its uses, if Redis is configured.
pub(crate) struct Redis(Option<(Arc<RedisConnection>, Vec<RedisUse>)>);

impl Redis {
    /// Connects in the background as soon as Redis is reachable, and reconnects after outages.
    pub(crate) fn keep(config: Option<&RedisConfig>, tx: &MarketTransactor) -> Redis {
        Redis(config.map(|config| {
            let clock = Arc::clone(tx.clock());
            let link = RedisConnection::keep(config.settings.clone(), config.uses.clone(), clock, tx.tasks());
            (link, config.uses.clone())
        }))
    }

    /// The connection for token buckets, if `rate-limit.store` is `redis`.
    pub(super) fn for_limits(&self) -> Option<Arc<RedisConnection>> {
        self.used_for(RedisUse::Limits)
    }

    /// The application, with idempotency keys in Redis if `idempotency.store` is `redis`.
    pub(crate) fn with_idempotency_keys(&self, app: App) -> App {
        match self.used_for(RedisUse::Keys) {
            Some(link) => app.with_idempotency_store(Arc::new(RedisKeys::new(link))),
            None => app,
        }
    }

    fn used_for(&self, purpose: RedisUse) -> Option<Arc<RedisConnection>> {
        let (link, uses) = self.0.as_ref()?;
        uses.contains(&purpose).then(|| Arc::clone(link))
    }
}
