//! The configuration: built-in defaults < `handover.toml` < `HANDOVER_*` variables < flags, validated completely before
//! any component starts.
//!
//! **Invariant:** every [`Config`] has passed all checks; no value is clamped or ignored. All errors are reported, not only
//! the first.

mod auth;
mod consumer;
mod describe;
mod error;
mod gateway_and_assets;
mod http;
mod idempotency;
mod key_list;
mod layers;
mod log;
mod order_timeout;
mod outbox;
mod rate_limit;
mod read;
mod redis;
mod retry;
#[cfg(test)]
mod tests;
mod urls;
mod value;
mod variables;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use marketplace::idempotency::RequestSettings;
use marketplace::{Rules, Settings};
use marketplace_redis::RedisUse;

pub use auth::AuthConfig;
pub(crate) use auth::read_keys;
pub use describe::{Described, Description, Shown};
pub use error::{ConfigError, ConfigErrors, Origin};
pub use gateway_and_assets::{GatewayChoice, GatewayConfig};
pub use http::HttpConfig;
pub(crate) use key_list::flag_help;
pub use layers::Sources;
pub use log::{LogConfig, LogFormat};
pub use rate_limit::LimitConfig;
use read::Reader;
pub use redis::RedisConfig;
pub use urls::{BrokerChoice, DatabaseChoice};
pub use variables::IgnoredVariable;

/// The key of [`Config::jwt_secret`].
pub(crate) const JWT_SECRET: &str = "auth.jwt-secret";
/// The key of [`Config::gateway_secret`].
pub(crate) const GATEWAY_SECRET: &str = "gateway.secret";

/// The key of [`Config::previous_jwt_secret`].
pub(crate) const PREVIOUS_JWT_SECRET: &str = "auth.previous-jwt-secret";
/// The key of [`Config::previous_gateway_secret`].
pub(crate) const PREVIOUS_GATEWAY_SECRET: &str = "gateway.previous-secret";

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(secret: impl Into<String>) -> Secret {
        Secret(secret.into())
    }

    /// The secret itself, for signing and verifying.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// The validated configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// `http.listen`.
    pub listen: SocketAddr,
    /// `rate-limit.*` and the trusted proxies of `http.*`.
    pub limits: LimitConfig,
    /// `redis.*`, if a store uses it.
    pub redis: Option<RedisConfig>,
    /// The keys of `http.*` except `http.listen` and those of trusted proxies.
    pub http: HttpConfig,
    /// `database.*`.
    pub database: DatabaseChoice,
    /// `broker.*` and `rabbitmq.*`.
    pub broker: BrokerChoice,
    /// `auth.jwt-secret`, if set.
    pub jwt_secret: Option<Secret>,
    /// `auth.previous-jwt-secret`, if set.
    pub previous_jwt_secret: Option<Secret>,
    /// The other keys of `auth.*`.
    pub auth: AuthConfig,
    /// `gateway.url`, `gateway.sandbox-delay` and `gateway.require-reference`.
    pub gateway: GatewayConfig,
    /// `gateway.secret`, if set.
    pub gateway_secret: Option<Secret>,
    /// `gateway.previous-secret`, if set.
    pub previous_gateway_secret: Option<Secret>,
    /// Settings of the use cases, such as the payment deadline of orders.
    pub rules: Rules,
    /// Durations of `idempotency.*`.
    pub requests: RequestSettings,
    /// Settings of relay, consumers and jobs.
    pub settings: Settings,
    /// `log.*`.
    pub log: LogConfig,
}

impl Config {
    /// Reads and validates the configuration.
    pub fn load(sources: &Sources) -> Result<Config, ConfigErrors> {
        let (mut settings, mut errors) = layers::merge(sources);
        loop {
            match Config::read(&Reader::new(&settings)) {
                Ok(config) if errors.is_empty() => return Ok(config),
                Ok(_) => return Err(ConfigErrors(errors)),
                Err(error) => {
                    // Continue with the default in place of the invalid value, to find the other errors.
                    let was_reset = error.keys().any(|key| settings.remove(key).is_some());
                    if !error.follows_from(&errors) {
                        errors.push(error);
                    }
                    if !was_reset {
                        return Err(ConfigErrors(errors));
                    }
                }
            }
        }
    }

    /// Builds the configuration, or returns the first error.
    ///
    /// This function and those that it calls define all keys: every default, limit and reason. Without errors it MUST read
    /// every key, in the order of the documentation: [`key_list::keys`] lists the keys that it read.
    fn read(reader: &Reader<'_>) -> Result<Config, ConfigError> {
        let listen = http::listen(reader)?;
        let http = http::http(reader, listen)?;
        let proxies = http::proxies(reader)?;
        let limits_store = redis::store(reader, RedisUse::Limits)?;
        let limits = rate_limit::limits(reader, proxies)?;
        let redis = redis::items(reader)?;
        let database = urls::database(reader)?;
        let broker = urls::broker(reader, &database)?;
        let jwt_secret = auth::secret(reader)?;
        let previous_jwt_secret = auth::previous_secret(reader)?;
        let auth = auth::auth(reader)?;
        let (gateway, gateway_secret, previous_gateway_secret) = gateway_and_assets::gateway(reader)?;
        let refund = gateway_and_assets::refund(reader)?;
        let pending_timeout = order_timeout::pending_timeout(reader)?;
        let timeout = order_timeout::timeout(reader)?;
        let relay = outbox::relay(reader)?;
        let consumer = consumer::consumer(reader)?;
        let keys_store = redis::store(reader, RedisUse::Keys)?;
        let requests = idempotency::requests(reader)?;
        let (points, consistency) = gateway_and_assets::assets(reader)?;
        let log = log::log(reader)?;
        Ok(Config {
            listen,
            limits,
            redis: redis.of([limits_store, keys_store])?,
            http,
            database,
            broker: broker.with_confirm_timeout(relay.confirm_timeout),
            jwt_secret,
            previous_jwt_secret,
            auth,
            gateway,
            gateway_secret,
            previous_gateway_secret,
            rules: Rules {
                pending_timeout,
                // Without the first attempt, which is not a retry.
                max_retry_count: relay.retry.attempts().saturating_sub(1),
                on_failed: relay.on_failed,
                points,
            },
            requests,
            settings: Settings { relay, consumer, timeout, refund, consistency },
            log,
        })
    }

    /// All addresses on which a process with an API listens.
    pub fn listens(&self) -> Vec<SocketAddr> {
        [self.listen].into_iter().chain(self.http.ops_listen).collect()
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Upper limit of both `outbox.batch` and `order.timeout.sweep-batch`.
const MAX_BATCH: u32 = 10_000;
