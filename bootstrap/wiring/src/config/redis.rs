//! Redis and its uses: `[redis]`, `rate-limit.store`, `idempotency.store`.

use std::time::Duration;

use marketplace_redis::{RedisSettings, RedisUse};

use super::error::ConfigError;
use super::read::{Item, Reader};
use super::urls::certificates;
use super::{MILLISECOND, SECOND};

#[derive(Debug, Clone)]
pub struct RedisConfig {
    /// `redis.*`.
    pub settings: RedisSettings,
    /// Never empty.
    pub uses: Vec<RedisUse>,
}

/// Value of `rate-limit.store` or `idempotency.store`: Redis, or the default store.
pub(super) struct StoreChoice {
    item: Item,
    redis: Option<RedisUse>,
    default: &'static str,
}

/// Reads the key that selects the store of rate limits or of idempotency keys.
pub(super) fn store(reader: &Reader<'_>, used: RedisUse) -> Result<StoreChoice, ConfigError> {
    let (path, default) = match used {
        RedisUse::Limits => ("rate-limit.store", "local"),
        RedisUse::Keys => ("idempotency.store", "database"),
    };
    let item = reader.text(path, default);
    let redis = item.one_of(&[(default, None), ("redis", Some(used))])?;
    Ok(StoreChoice { item, redis, default })
}

/// `redis.*`.
pub(super) struct RedisItems {
    url: Option<Item>,
    authorities: Option<Item>,
    timeout: Duration,
}

/// Reads `redis.*`.
pub(super) fn items(reader: &Reader<'_>) -> Result<RedisItems, ConfigError> {
    let url = reader.optional_url("redis.url");
    let authorities = reader.optional("redis.ca-file");
    let why = "a short timeout ends before Redis can answer, and with a long one every request may wait for a long time";
    let timeout = reader.value("redis.timeout", "50ms").duration(MILLISECOND..=SECOND, why)?;
    Ok(RedisItems { url, authorities, timeout })
}

impl RedisItems {
    /// The Redis configuration that the two stores share; `None` if neither uses Redis.
    pub(super) fn of(self, stores: [StoreChoice; 2]) -> Result<Option<RedisConfig>, ConfigError> {
        let uses: Vec<RedisUse> = stores.iter().filter_map(|store| store.redis).collect();
        let keys = stores.each_ref().map(|store| store.item.key.path);
        let user = stores.into_iter().find_map(|store| Some((store.redis?, store)));
        match (user, self.url, self.authorities) {
            (None, None, None) => Ok(None),
            (None, Some(item), _) | (None, None, Some(item)) => {
                let remedy =
                    "set rate-limit.store = \"redis\" or idempotency.store = \"redis\", or remove the key";
                Err(item.refused_as("set", "no store uses Redis", remedy).related_to(&keys))
            }
            (Some((used, store)), None, _) => Err(without_url(used, &store)),
            (Some(_), Some(item), authorities) => {
                let settings = connected(&item, authorities, self.timeout)?;
                Ok(Some(RedisConfig { settings, uses }))
            }
        }
    }
}

fn without_url(used: RedisUse, store: &StoreChoice) -> ConfigError {
    let what = match used {
        RedisUse::Limits => "rate limits are counted in Redis",
        RedisUse::Keys => "idempotency keys of operators' requests are stored in Redis",
    };
    let why = format!("{what}, but redis.url is not set");
    let remedy = format!(
        "set redis.url = \"redis://user:password@host:6379/0\", or set the store to \"{}\"",
        store.default
    );
    store.item.refused(&why, &remedy).related_to(&["redis.url"])
}

fn connected(
    item: &Item,
    authorities: Option<Item>,
    timeout: Duration,
) -> Result<RedisSettings, ConfigError> {
    let remedy = "write redis://user:password@host:6379/0, or rediss:// for an encrypted connection";
    let mut settings =
        RedisSettings::parse(&item.as_text()?).map_err(|error| item.refused(&error.to_string(), remedy))?;
    if let Some(file) = authorities {
        let pem = certificates(&file, &file.as_text()?)?;
        settings = settings.with_ca_certificates(&pem).map_err(|error| {
            file.refused(&error.to_string(), "name the authority's certificate, and use rediss://")
        })?;
    }
    settings.timeout = timeout;
    Ok(settings)
}
