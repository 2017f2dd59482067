//! Webhooks: `[webhook]`.

use std::net::SocketAddr;
use std::time::Duration;

use handover_egress::host_name;
use handover_outbox::webhooks::WebhookSettings;
use handover_webhooks::SecretKey;
use ipnet::IpNet;
use toml::Value;

use super::http::networks;
use super::servers::certificates;
use crate::config::{Checked, ConfigError, HOUR, Item, Kind, MILLISECOND, MINUTE, Reader, SECOND, Secret};

/// The key of the key that encrypts the secrets of endpoints.
pub const WEBHOOK_KEY: &str = "webhook.key";
/// The key of the previous key, with which secrets are still decrypted.
pub const PREVIOUS_WEBHOOK_KEY: &str = "webhook.previous-key";
const CA_FILE: &str = "webhook.ca-file";
/// The schedule of the Standard Webhooks specification.
const DELAYS: &str = r#"["5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"]"#;

/// `webhook.*`.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// `webhook.key`, if set.
    pub key: Option<Secret>,
    /// `webhook.previous-key`, if set.
    pub previous_key: Option<Secret>,
    /// `webhook.allow-networks`: networks of receivers besides the public internet.
    pub networks: Vec<IpNet>,
    /// `webhook.own-hosts`: names of this service, in lower case and punycode.
    pub own_hosts: Vec<String>,
    /// The addresses on which the service listens.
    pub listens: Vec<SocketAddr>,
    /// The certificates of `webhook.ca-file`, if set.
    pub authorities: Option<String>,
    /// `webhook.keep`: retention of deliveries that were delivered or cancelled.
    pub keep: Duration,
    /// Settings of the dispatcher.
    pub settings: WebhookSettings,
}

impl WebhookConfig {
    /// Sets the maximum number of publish retries of the events about webhooks.
    #[must_use]
    pub fn with_max_retry_count(mut self, max_retry_count: u32) -> WebhookConfig {
        self.settings.max_retry_count = max_retry_count;
        self
    }

    /// Sets the addresses on which the service listens: no endpoint may have one of them, and outside loopback the key is
    /// not generated.
    #[must_use]
    pub fn with_listens(self, listens: Vec<SocketAddr>) -> WebhookConfig {
        WebhookConfig { listens, ..self }
    }
}

/// Reads `webhook.*`.
pub fn webhook(reader: &Reader<'_>) -> Checked<WebhookConfig> {
    let key = reader.optional(Kind::Secret { is_generated: true }, WEBHOOK_KEY, |item| {
        strong(item, "remove the key to have one generated next to the database file")
    });
    let previous_key = reader.optional(Kind::Secret { is_generated: false }, PREVIOUS_WEBHOOK_KEY, |item| {
        strong(item, "remove the key if every secret is encrypted with webhook.key")
    });
    let networks = reader.key(Kind::Value, "webhook.allow-networks", "[]", |item| {
        networks(item, "the list opens every address, also those of this machine and of metadata services")
    });
    let own_hosts = reader.key(Kind::Value, "webhook.own-hosts", "[]", own_hosts);
    let authorities = reader.optional(Kind::Text, CA_FILE, Item::as_text);
    let authorities =
        authorities.and_then(|path| path.map(|path| certificates(reader, CA_FILE, &path)).transpose());
    let why = "the scan finds due deliveries: it must run regularly, but not continuously";
    let scan_interval = reader.duration("webhook.scan-interval", "500ms", MILLISECOND * 10..=MINUTE, why);
    let why = "with a short timeout, receivers get events twice; with a long one, receivers that hang hold connections";
    let timeout = reader.duration("webhook.timeout", "15s", MILLISECOND * 100..=SECOND * 30, why);
    let delays = reader.key(Kind::Value, "webhook.delays", DELAYS, delays);
    let why = "each attempt in progress holds a connection, and a process may open a limited number of files";
    let concurrency = reader.count("webhook.concurrency", "512", 1..=10_000, why);
    let why = "a receiver that was down for days asks which deliveries it got, and each delivery takes space";
    let keep = reader.duration("webhook.keep", "30d", HOUR * 24..=HOUR * 24 * 3_650, why);
    Ok(WebhookConfig {
        key: key?,
        previous_key: previous_key?,
        networks: networks?,
        own_hosts: own_hosts?,
        listens: Vec::new(),
        authorities: authorities?,
        keep: keep?,
        settings: WebhookSettings {
            scan_interval: scan_interval?,
            timeout: timeout?,
            delays: delays?,
            concurrency: concurrency?,
            ..WebhookSettings::default()
        },
    })
}

/// Host names as they are in a parsed URL.
fn own_hosts(item: &Item) -> Result<Vec<String>, ConfigError> {
    let remedy = "write a list of host names, without scheme and port: [\"shop.example\"]";
    let names: Vec<String> = item.parse("it is not a list of strings", remedy)?;
    let parsed = |name: String| {
        host_name(&name).ok_or_else(|| item.refused(&format!("{name} is not a host name"), remedy))
    };
    names.into_iter().map(parsed).collect()
}

fn delays(item: &Item) -> Result<Vec<Duration>, ConfigError> {
    let remedy = format!("write 1 to 100 delays: {DELAYS}");
    let Value::Array(delays) = item.value() else {
        return Err(item.refused("it is not a list of delays", &remedy));
    };
    if !(1..=100).contains(&delays.len()) {
        return Err(
            item.refused("a delivery needs a second attempt, and should not be attempted forever", &remedy)
        );
    }
    let delays: Vec<Duration> =
        delays.iter().map(|delay| item.duration_of(delay)).collect::<Result<_, _>>()?;
    if delays.iter().any(|delay| !(MILLISECOND * 10..=HOUR * 168).contains(delay)) {
        return Err(item.refused("a delay must be 10ms to 7 days", &remedy));
    }
    Ok(delays)
}

fn strong(item: &Item, otherwise: &str) -> Result<Secret, ConfigError> {
    let key = item.as_text()?;
    if let Err(error) = SecretKey::new(&key) {
        let why =
            "anybody who guesses the key can decrypt the secrets of endpoints in a copy of the database";
        let remedy = format!("set random characters (openssl rand -hex 32), or {otherwise}");
        return Err(item.refused_as(&error.to_string(), why, &remedy));
    }
    Ok(Secret::new(key))
}
