//! Redis and its uses: `[redis]`, `rate-limit.store`, `idempotency.store`.

use std::time::Duration;

use marketplace_redis::{RedisSettings, RedisUse};

use super::error::ConfigError;
use super::read::{Item, Reader};
use super::urls::{certificates, shown};
use super::{MILLISECOND, SECOND};

/// Redis and its uses.
#[derive(Debug, Clone)]
pub struct RedisConfig {
    /// `redis.*`.
    pub settings: RedisSettings,
    /// Never empty.
    pub uses: Vec<RedisUse>,
}

/// Reads `redis.*`, if a store uses Redis.
pub(super) fn redis(reader: &Reader<'_>) -> Result<Option<RedisConfig>, ConfigError> {
    let limits = reader.one_of("rate-limit.store", &[("local", None), ("redis", Some(RedisUse::Limits))])?;
    let keys = reader.one_of("idempotency.store", &[("database", None), ("redis", Some(RedisUse::Keys))])?;
    let uses: Vec<RedisUse> = limits.into_iter().chain(keys).collect();
    let timeout_why = "every request may wait this long for Redis";
    let timeout = reader.duration("redis.timeout", MILLISECOND..=SECOND, timeout_why)?;
    let url = reader.find("redis.url");
    let authorities = reader.find("redis.ca-file");
    match (uses.first(), url, authorities) {
        (None, None, None) => Ok(None),
        (None, Some(item), _) | (None, None, Some(item)) => {
            let remedy = "set rate-limit.store = \"redis\" or idempotency.store = \"redis\", or leave it out";
            let error = item.refused_as("set", "no store uses Redis", remedy);
            Err(error.related_to(&["rate-limit.store", "idempotency.store"]))
        }
        (Some(used), None, _) => Err(without_url(reader, *used)?),
        (Some(_), Some(item), authorities) => {
            let settings = connected(&item, authorities, timeout)?;
            Ok(Some(RedisConfig { settings, uses }))
        }
    }
}

fn without_url(reader: &Reader<'_>, used: RedisUse) -> Result<ConfigError, ConfigError> {
    let (key, what, otherwise) = match used {
        RedisUse::Limits => ("rate-limit.store", "processes share their limits in Redis", "local"),
        RedisUse::Keys => {
            ("idempotency.store", "idempotency keys of operators' requests are stored in Redis", "database")
        }
    };
    let why = format!("{what}, but redis.url is not set");
    let remedy =
        format!("set redis.url = \"redis://user:password@host:6379/0\", or leave this at \"{otherwise}\"");
    Ok(reader.item(key)?.refused(&why, &remedy).related_to(&["redis.url"]))
}

fn connected(
    item: &Item<'_>,
    authorities: Option<Item<'_>>,
    timeout: Duration,
) -> Result<RedisSettings, ConfigError> {
    let url = item.text()?;
    let remedy = "write redis://user:password@host:6379/0, or rediss:// for an encrypted connection";
    let mut settings = RedisSettings::parse(&url)
        .map_err(|error| item.refused_as(&shown(&url), &error.to_string(), remedy))?;
    if let Some(file) = authorities {
        let pem = certificates(&file, &file.text()?)?;
        settings = settings.with_ca_certificates(&pem).map_err(|error| {
            file.refused(&error.to_string(), "name the authority's certificate, and use rediss://")
        })?;
    }
    settings.timeout = timeout;
    Ok(settings)
}
