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
mod read;
mod redis;
mod retry;
#[cfg(test)]
mod tests;
mod urls;
mod value;

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use handover_outbox::ports::OnFailed;
use handover_outbox::{ConsumerSettings, OnOutage, RelaySettings};
use marketplace::idempotency::RequestSettings;
use marketplace::{Rules, Settings, TimeoutSettings};
use tracing_subscriber::filter::Targets;

use crate::telemetry;

pub use auth::AuthConfig;
pub(crate) use auth::read_keys;
pub use describe::{Described, Description, Shown};
pub use error::{ConfigError, ConfigErrors, Origin};
pub use gateway_and_assets::{GatewayChoice, GatewayConfig};
pub use http::HttpConfig;
pub use layers::Sources;
pub use limits::LimitConfig;
use read::{MINUTES, Reader};
pub use redis::RedisConfig;
pub use urls::{BrokerChoice, DatabaseChoice};

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

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON lines elsewhere.
    Auto,
    /// JSON lines.
    Json,
    /// Text.
    Text,
}

/// Logging and trace export.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `log.level`: a level, or directives such as `info,handover_outbox=debug`.
    pub filter: Targets,
    /// `log.format`.
    pub format: LogFormat,
    /// `log.traces`: `http://host:port` of an OpenTelemetry collector; `None`: off.
    pub traces: Option<String>,
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
    /// `gateway.url`.
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
            match Config::read(&Reader(&settings)) {
                Ok(config) if errors.is_empty() => return Ok(config),
                Ok(_) => return Err(ConfigErrors(errors)),
                Err(error) => {
                    // Continue with the default in place of the invalid value, to find the other errors.
                    let was_reset = layers::reset(error.keys(), &mut settings);
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
    fn read(reader: &Reader<'_>) -> Result<Config, ConfigError> {
        let relay = relay(reader)?;
        let database = urls::database(reader)?;
        let listen = http::listen(reader)?;
        Ok(Config {
            listen,
            http: http::http(reader, listen)?,
            limits: limits::limits(reader)?,
            redis: redis::redis(reader)?,
            broker: urls::broker(reader, &database, relay.confirm_timeout)?,
            database,
            jwt_secret: auth::secret(reader)?,
            auth: auth::auth(reader)?,
            gateway: gateway_and_assets::gateway(reader)?,
            gateway_secret: gateway_secret(reader)?,
            rules: Rules {
                pending_timeout: pending_timeout(reader)?,
                // The first attempt is not a retry.
                max_retry_count: relay.retry.attempts().saturating_sub(1),
                on_failed: relay.on_failed,
                points: gateway_and_assets::points(reader)?,
            },
            requests: requests(reader)?,
            settings: Settings {
                relay,
                consumer: consumer(reader)?,
                timeout: timeout(reader)?,
                refund: gateway_and_assets::refund(reader)?,
                consistency: gateway_and_assets::consistency(reader)?,
            },
            log: log(reader)?,
        })
    }
}

impl Config {
    /// All addresses on which a process with an API listens.
    pub fn listens(&self) -> Vec<SocketAddr> {
        [self.listen].into_iter().chain(self.http.ops_listen).collect()
    }
}

/// Reads the durations of `idempotency.*`.
fn requests(reader: &Reader<'_>) -> Result<RequestSettings, ConfigError> {
    let lease_why = "after a crash, a repeated request is refused for this long";
    let lease = reader.duration("idempotency.lease", SECOND..=HOUR, lease_why)?;
    let keep_why = "a request that is repeated later is executed again";
    let keep = reader.duration("idempotency.keep", MINUTE..=HOUR * 24 * 366, keep_why)?;
    if keep <= lease {
        let remedy =
            format!("set it above idempotency.lease, which is \"{}\"", humantime::format_duration(lease));
        let why = "a stored response could be deleted while repeats of its request are still refused";
        let error = reader.item("idempotency.keep")?.refused(why, &remedy);
        return Err(error.related_to(&["idempotency.lease"]));
    }
    let sweep_why = "the sweep deletes expired responses: it must run regularly, but not continuously";
    let sweep_interval = reader.duration("idempotency.sweep-interval", SECOND..=HOUR * 24, sweep_why)?;
    Ok(RequestSettings { lease, keep, sweep_interval })
}

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Maximum of `outbox.batch` and `order.timeout.sweep-batch`.
const MAX_BATCH: u32 = 10_000;
/// Maximum of `order.timeout.pending-minutes`, in days.
const MAX_PENDING_DAYS: u32 = 30;

fn gateway_secret(reader: &Reader<'_>) -> Result<Option<Secret>, ConfigError> {
    let Some(item) = reader.find("gateway.secret") else { return Ok(None) };
    let secret = item.text()?;
    let key = secret.strip_prefix("whsec_").unwrap_or_default();
    let base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    // 24 bytes are 32 characters of base64, 64 are 88 (Standard Webhooks, "Signature scheme").
    if !(32..=88).contains(&key.len()) || key.len() % 4 != 0 || !key.bytes().all(base64) {
        let remedy = "set whsec_ followed by 24 to 64 random bytes in base64 \
                      (echo whsec_$(openssl rand -base64 32)), or leave it out to have one generated";
        return Err(item.refused_as(
            "not a signing secret",
            "it is the only proof that a payment callback is genuine",
            remedy,
        ));
    }
    Ok(Some(Secret::new(secret)))
}

fn pending_timeout(reader: &Reader<'_>) -> Result<Duration, ConfigError> {
    let why = "with no time to pay, every order would be cancelled; with no limit, unpaid orders would keep their products";
    reader.time("order.timeout.pending-minutes", &MINUTES, MAX_PENDING_DAYS, why)
}

fn timeout(reader: &Reader<'_>) -> Result<TimeoutSettings, ConfigError> {
    let interval_why =
        "the sweep closes orders whose timeout message was lost: it must run regularly, but not continuously";
    let batch = reader.count(
        "order.timeout.sweep-batch",
        1..=MAX_BATCH,
        "an empty batch closes nothing, and a very large one holds its locks for long",
    )?;
    Ok(TimeoutSettings {
        sweep_interval: reader.duration(
            "order.timeout.sweep-interval",
            MILLISECOND * 10..=HOUR,
            interval_why,
        )?,
        sweep_batch: NonZeroU32::new(batch).unwrap_or(NonZeroU32::MIN),
    })
}

fn relay(reader: &Reader<'_>) -> Result<RelaySettings, ConfigError> {
    let batch = reader.count(
        "outbox.batch",
        1..=MAX_BATCH,
        "an empty batch publishes nothing, and a very large one fills the memory",
    )?;
    let scan_why = "it is the longest that an event waits when its wake-up notification is lost";
    let lease_why = "a relay that pauses briefly loses a short lease, and after a crash a long lease delays the takeover of its partitions";
    let lease = reader.duration("outbox.lease", SECOND..=MINUTE, lease_why)?;
    let confirm_why = "a short timeout repeats publishes to a slow broker, a long one waits for a broker that never confirms";
    Ok(RelaySettings {
        batch: NonZeroU32::new(batch).unwrap_or(NonZeroU32::MIN),
        scan_interval: reader.duration("outbox.scan-interval", MILLISECOND * 10..=MINUTE, scan_why)?,
        retry: retry::outbox(reader)?,
        on_failed: reader
            .one_of("outbox.on-failed", &[("continue", OnFailed::Continue), ("hold", OnFailed::Hold)])?,
        on_outage: reader.one_of("outbox.outage", &[("wait", OnOutage::Wait), ("count", OnOutage::Count)])?,
        lease_ms: u32::try_from(lease.as_millis()).unwrap_or(u32::MAX),
        confirm_timeout: reader.duration(
            "outbox.confirm-timeout",
            MILLISECOND * 100..=MINUTE * 10,
            confirm_why,
        )?,
        ..RelaySettings::default()
    })
}

fn consumer(reader: &Reader<'_>) -> Result<ConsumerSettings, ConfigError> {
    let prefetch = reader.count(
        "consumer.prefetch",
        1..=u16::MAX,
        "AMQP takes 0 as unlimited, which would fill the memory",
    )?;
    let attempt_why = "a short timeout aborts slow handlers, a long one waits for handlers that hang";
    let attempt_timeout =
        reader.duration("consumer.attempt-timeout", MILLISECOND * 10..=MINUTE * 10, attempt_why)?;
    let lease_why = "it is how long a crashed attempt blocks other workers";
    let lease = reader.duration("consumer.lease", MILLISECOND * 10..=HOUR, lease_why)?;
    if lease <= attempt_timeout {
        let why = "another worker could start while the first attempt still runs";
        let remedy = format!(
            "set it above consumer.attempt-timeout, which is \"{}\"",
            humantime::format_duration(attempt_timeout)
        );
        let error = reader.item("consumer.lease")?.refused(why, &remedy);
        return Err(error.related_to(&["consumer.attempt-timeout"]));
    }
    let sweep_why = "the sweep finds interrupted attempts: it must run regularly, but not continuously";
    let lost_why = "a short time repeats events that are still on their way, a long one delays lost events";
    Ok(ConsumerSettings {
        prefetch: NonZeroU16::new(prefetch).unwrap_or(NonZeroU16::MIN),
        retry: retry::consumer(reader)?,
        attempt_timeout,
        lease,
        sweep_interval: reader.duration("consumer.sweep-interval", MILLISECOND * 10..=HOUR, sweep_why)?,
        lost_after: reader.duration("consumer.lost-after", SECOND..=HOUR, lost_why)?,
    })
}

fn log(reader: &Reader<'_>) -> Result<LogConfig, ConfigError> {
    let item = reader.item("log.level")?;
    let level = item.text()?;
    let remedy = "write error, warn, info, debug or trace, or levels per target: info,handover_outbox=debug";
    let filter = telemetry::filter(&level).map_err(|refused| item.refused(refused.why(), remedy))?;
    let formats = [("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];
    Ok(LogConfig { filter, format: reader.one_of("log.format", &formats)?, traces: traces(reader)? })
}

fn traces(reader: &Reader<'_>) -> Result<Option<String>, ConfigError> {
    let item = reader.item("log.traces")?;
    let endpoint = item.text()?;
    if endpoint == "off" {
        return Ok(None);
    }
    let refused = |why: &str, remedy: &str| item.refused_as(&urls::shown(&endpoint), why, remedy);
    if !cfg!(feature = "otel") {
        let remedy = "build the program with --features otel, or set it to off";
        return Err(refused("this program was built without trace export", remedy));
    }
    let host = endpoint.strip_prefix("http://").unwrap_or_default();
    if host.is_empty() || host.contains(['@', '?', ' ']) {
        let remedy =
            "write off, or http://host:port of an OpenTelemetry collector, such as http://127.0.0.1:4318";
        return Err(refused("it is not the address of a collector that accepts OTLP over HTTP", remedy));
    }
    Ok(Some(endpoint))
}
