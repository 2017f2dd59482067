//! Redis and its uses: `[redis]`, `rate-limit.store`, `idempotency.store`.

use std::time::Duration;

use handover_runtime::config::{Checked, Item, Kind, MILLISECOND, Reader, Reported, SECOND};
use handover_runtime::settings::certificates;
use marketplace_redis::{RedisSettings, RedisUse};

const REDIS_URL: &str = "redis.url";
const REDIS_CA_FILE: &str = "redis.ca-file";

/// Redis and its uses.
#[derive(Debug, Clone)]
pub struct RedisConfig {
    /// `redis.*`.
    pub settings: RedisSettings,
    /// Never empty.
    pub uses: Vec<RedisUse>,
}

/// Reads the key that selects the store of rate limits or of idempotency keys: `None` for the default store.
pub(super) fn store(reader: &Reader<'_>, used: RedisUse) -> Checked<Option<RedisUse>> {
    let (path, default) = key_of(used);
    reader.one_of(path, &[(default, None), ("redis", Some(used))])
}

/// The key that selects the store of this use, and its default.
fn key_of(used: RedisUse) -> (&'static str, &'static str) {
    match used {
        RedisUse::Limits => ("rate-limit.store", "local"),
        RedisUse::Keys => ("idempotency.store", "database"),
    }
}

/// `redis.*`.
pub(super) struct RedisKeys {
    settings: Checked<Option<RedisSettings>>,
    authorities: Checked<Option<String>>,
    timeout: Checked<Duration>,
}

/// Reads `redis.*`.
pub(super) fn redis(reader: &Reader<'_>) -> RedisKeys {
    let settings = reader.optional(Kind::Url, REDIS_URL, |item| {
        let remedy = "write redis://user:password@host:6379/0, or rediss:// for an encrypted connection";
        RedisSettings::parse(&item.as_text()?).map_err(|error| item.refused(&error.to_string(), remedy))
    });
    let authorities = reader.optional(Kind::Text, REDIS_CA_FILE, Item::as_text);
    let why = "a short timeout ends before Redis can answer, and with a long one every request may wait for a long time";
    let timeout = reader.duration("redis.timeout", "50ms", MILLISECOND..=SECOND, why);
    RedisKeys { settings, authorities, timeout }
}

impl RedisKeys {
    /// The Redis configuration that the two stores share; `None` if neither uses Redis.
    pub(super) fn used_by(
        self,
        reader: &Reader<'_>,
        stores: [Checked<Option<RedisUse>>; 2],
    ) -> Checked<Option<RedisConfig>> {
        let uses: Vec<RedisUse> = stores.into_iter().flatten().flatten().collect();
        let authorities = self.authorities?;
        match (uses.as_slice(), self.settings?) {
            ([], None) if authorities.is_none() => Ok(None),
            ([], settings) => {
                let needless = if settings.is_some() { REDIS_URL } else { REDIS_CA_FILE };
                let remedy =
                    "set rate-limit.store = \"redis\" or idempotency.store = \"redis\", or remove the key";
                let error = reader.item(needless).refused_as("set", "no store uses Redis", remedy);
                let stores = [RedisUse::Limits, RedisUse::Keys].map(|used| key_of(used).0);
                Err(reader.report(error.related_to(&stores)))
            }
            ([first, others @ ..], None) => {
                let reported = without_url(reader, *first);
                for used in others {
                    without_url(reader, *used);
                }
                Err(reported)
            }
            (_, Some(mut settings)) => {
                if let Some(path) = authorities {
                    let pem = certificates(reader, REDIS_CA_FILE, &path)?;
                    settings = settings.with_ca_certificates(&pem).map_err(|error| {
                        let remedy = "name the authority's certificate, and use rediss://";
                        reader.report(reader.item(REDIS_CA_FILE).refused(&error.to_string(), remedy))
                    })?;
                }
                settings.timeout = self.timeout?;
                Ok(Some(RedisConfig { settings, uses }))
            }
        }
    }
}

fn without_url(reader: &Reader<'_>, used: RedisUse) -> Reported {
    let what = match used {
        RedisUse::Limits => "rate limits are counted in Redis",
        RedisUse::Keys => "idempotency keys of operators' requests are stored in Redis",
    };
    let why = format!("{what}, but redis.url is not set");
    let (path, default) = key_of(used);
    let remedy =
        format!("set redis.url = \"redis://user:password@host:6379/0\", or set the store to \"{default}\"");
    reader.report(reader.item(path).refused(&why, &remedy).related_to(&[REDIS_URL]))
}
