//! The configuration: built-in defaults < `handover.toml` < `HANDOVER_*` variables < flags, validated completely before
//! any component starts.
//!
//! **Invariant:** every [`Config`] has passed all checks; no value is clamped or ignored. All errors are reported, not only
//! the first.

mod auth;
mod describe;
mod error;
mod gateway_and_assets;
mod http;
mod keys;
mod layers;
mod limits;
mod log;
mod read;
mod redis;
mod retry;
#[cfg(test)]
mod tests;
mod urls;
mod value;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use handover_outbox::ports::OnFailed;
use handover_outbox::{ConsumerSettings, OnOutage, RelaySettings};
use marketplace::idempotency::RequestSettings;
use marketplace::{Rules, Settings, TimeoutSettings};
use marketplace_redis::RedisUse;

pub use auth::AuthConfig;
pub(crate) use auth::read_keys;
pub use describe::{Described, Description, Shown};
pub use error::{ConfigError, ConfigErrors, Origin};
pub use gateway_and_assets::{GatewayChoice, GatewayConfig};
pub use http::HttpConfig;
pub(crate) use keys::flag_help;
pub use layers::Sources;
pub use limits::LimitConfig;
pub use log::{LogConfig, LogFormat};
use read::{MINUTES, Reader};
pub use redis::RedisConfig;
pub use urls::{BrokerChoice, DatabaseChoice};

/// The key of [`Config::jwt_secret`].
pub(crate) const JWT_SECRET: &str = "auth.jwt-secret";
/// The key of [`Config::gateway_secret`].
pub(crate) const GATEWAY_SECRET: &str = "gateway.secret";

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
    /// The other keys of `http.*`.
    pub http: HttpConfig,
    /// `database.*`.
    pub database: DatabaseChoice,
    /// `broker.*` and `rabbitmq.*`.
    pub broker: BrokerChoice,
    /// `auth.jwt-secret`, if set.
    pub jwt_secret: Option<Secret>,
    /// The other keys of `auth.*`.
    pub auth: AuthConfig,
    /// `gateway.url` and `gateway.sandbox-delay`.
    pub gateway: GatewayConfig,
    /// `gateway.secret`, if set.
    pub gateway_secret: Option<Secret>,
    /// Rules of the use cases.
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
    /// every key, in the order of the documentation: [`keys::keys`] lists the keys that it read.
    fn read(reader: &Reader<'_>) -> Result<Config, ConfigError> {
        let listen = http::listen(reader)?;
        let http = http::http(reader, listen)?;
        let proxies = http::proxies(reader)?;
        let limits_store = redis::store(reader, RedisUse::Limits)?;
        let limits = limits::limits(reader, proxies)?;
        let redis = redis::items(reader)?;
        let database = urls::database(reader)?;
        let broker = urls::broker(reader, &database)?;
        let jwt_secret = auth::secret(reader)?;
        let auth = auth::auth(reader)?;
        let (gateway, gateway_secret) = gateway_and_assets::gateway(reader)?;
        let refund = gateway_and_assets::refund(reader)?;
        let pending_timeout = pending_timeout(reader)?;
        let timeout = timeout(reader)?;
        let relay = relay(reader)?;
        let consumer = consumer(reader)?;
        let keys_store = redis::store(reader, RedisUse::Keys)?;
        let requests = requests(reader)?;
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
            auth,
            gateway,
            gateway_secret,
            rules: Rules {
                pending_timeout,
                // The first attempt is not a retry.
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

/// Maximum of `outbox.batch` and `order.timeout.sweep-batch`.
const MAX_BATCH: u32 = 10_000;
/// Maximum of `order.timeout.pending-minutes`, in days.
const MAX_PENDING_DAYS: u32 = 30;

fn pending_timeout(reader: &Reader<'_>) -> Result<Duration, ConfigError> {
    let why = "with no time to pay, every order would be cancelled; with no limit, unpaid orders would keep their products";
    reader.value("order.timeout.pending-minutes", "15").time(&MINUTES, MAX_PENDING_DAYS, why)
}

fn timeout(reader: &Reader<'_>) -> Result<TimeoutSettings, ConfigError> {
    let why =
        "the sweep closes orders whose timeout message was lost: it must run regularly, but not continuously";
    let sweep_interval =
        reader.value("order.timeout.sweep-interval", "30s").duration(MILLISECOND * 10..=HOUR, why)?;
    let why = "an empty batch closes nothing, and a very large one keeps rows locked for a long time";
    let sweep_batch = reader.value("order.timeout.sweep-batch", "200").count(1..=MAX_BATCH, why)?;
    Ok(TimeoutSettings { sweep_interval, sweep_batch })
}

fn relay(reader: &Reader<'_>) -> Result<RelaySettings, ConfigError> {
    let why = "an empty batch publishes nothing, and a very large one fills the memory";
    let batch = reader.value("outbox.batch", "200").count(1..=MAX_BATCH, why)?;
    let why = "short intervals load the database, and an event waits for a long one if its wake-up notification is lost";
    let scan_interval =
        reader.value("outbox.scan-interval", "5s").duration(MILLISECOND * 10..=MINUTE, why)?;
    let retry = retry::outbox(reader)?;
    let on_failed = [("continue", OnFailed::Continue), ("hold", OnFailed::Hold)];
    let on_failed = reader.one_of("outbox.on-failed", &on_failed)?;
    let on_outage = [("wait", OnOutage::Wait), ("count", OnOutage::Count)];
    let on_outage = reader.one_of("outbox.outage", &on_outage)?;
    let why = "a relay that pauses briefly loses a short lease, and after a crash a long lease delays the takeover of its partitions";
    let lease = reader.value("outbox.lease", "5s").duration(SECOND..=MINUTE, why)?;
    let why = "a short timeout repeats publishes to a slow broker, a long one waits for a broker that never confirms";
    let confirm_timeout =
        reader.value("outbox.confirm-timeout", "10s").duration(MILLISECOND * 100..=MINUTE * 10, why)?;
    Ok(RelaySettings {
        batch,
        scan_interval,
        retry,
        on_failed,
        on_outage,
        lease_ms: u32::try_from(lease.as_millis()).unwrap_or(u32::MAX),
        confirm_timeout,
        ..RelaySettings::default()
    })
}

fn consumer(reader: &Reader<'_>) -> Result<ConsumerSettings, ConfigError> {
    let why = "AMQP takes 0 as unlimited, which would fill the memory, and has 16 bits for the number";
    let prefetch = reader.value("consumer.prefetch", "20").count(1..=u16::MAX, why)?;
    let retry = retry::consumer(reader)?;
    let timeout_item = reader.value("consumer.attempt-timeout", "10s");
    let lease_item = reader.value("consumer.lease", "15s");
    let why = "a short timeout aborts slow handlers, a long one waits for handlers that hang";
    let attempt_timeout = timeout_item.duration(MILLISECOND * 10..=MINUTE * 10, why)?;
    let why =
        "a short lease ends while its attempt still runs, and a long one blocks other workers after a crash";
    let lease = lease_item.duration(MILLISECOND * 10..=HOUR, why)?;
    if lease <= attempt_timeout {
        let why = "another worker could start while the first attempt still runs";
        return Err(lease_item.too_short("above", &timeout_item, attempt_timeout, why));
    }
    let why = "the sweep finds interrupted attempts: it must run regularly, but not continuously";
    let sweep_interval =
        reader.value("consumer.sweep-interval", "5s").duration(MILLISECOND * 10..=HOUR, why)?;
    let why = "a short time repeats events that are still on their way, a long one delays lost events";
    let lost_after = reader.value("consumer.lost-after", "60s").duration(SECOND..=HOUR, why)?;
    Ok(ConsumerSettings { prefetch, retry, attempt_timeout, lease, sweep_interval, lost_after })
}

/// Reads the durations of `idempotency.*`.
fn requests(reader: &Reader<'_>) -> Result<RequestSettings, ConfigError> {
    let lease_item = reader.value("idempotency.lease", "40s");
    let keep_item = reader.value("idempotency.keep", "24h");
    let why = "a short lease may end while the first request still runs; after a crash, repeats are refused until a long lease ends";
    let lease = lease_item.duration(SECOND..=HOUR, why)?;
    let why = "a request that is repeated after this time is executed again; until then, its response occupies space";
    let keep = keep_item.duration(MINUTE..=HOUR * 24 * 366, why)?;
    if keep <= lease {
        let why = "a stored response could be deleted while repeats of its request are still refused";
        return Err(keep_item.too_short("above", &lease_item, lease, why));
    }
    let why = "the sweep deletes expired responses: it must run regularly, but not continuously";
    let sweep_interval =
        reader.value("idempotency.sweep-interval", "1m").duration(SECOND..=HOUR * 24, why)?;
    Ok(RequestSettings { lease, keep, sweep_interval })
}
