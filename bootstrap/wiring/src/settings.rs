//! The configuration of the marketplace: its own sections, and those of the toolkit.

mod gateway_and_assets;
mod idempotency;
mod invoices;
mod order_timeout;
mod rate_limit;
mod redis;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use handover_outbox::Alert;
use handover_outbox::ports::OnFailed;
use handover_outbox::state::ALERTS;
use handover_runtime::config::{Checked, Configuration, Reader, Secret};
use handover_runtime::settings::{
    ArchiveConfig, AuditConfig, AuthConfig, BrokerChoice, DatabaseChoice, HttpConfig, LogConfig,
    MetricsConfig, OutboxConfig, WebhookConfig, alerts, archive, audit, auth, broker, consumer, database,
    http, listen, log, metrics, outbox, proxies, webhook,
};
use marketplace::event_types::descriptions;
use marketplace::idempotency::RequestSettings;
use marketplace::{Rules, Settings};
use marketplace_redis::RedisUse;

pub(crate) use gateway_and_assets::{GATEWAY_SECRET, PREVIOUS_GATEWAY_SECRET};
pub use gateway_and_assets::{GatewayChoice, GatewayConfig};
pub use rate_limit::LimitConfig;
pub use redis::RedisConfig;

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
    /// `auth.*`.
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
    /// `outbox.on-failed`: effect of a FAILED event on later events of its aggregate.
    pub on_failed: OnFailed,
    /// Settings of relay, consumers and jobs.
    pub settings: Settings,
    /// `archive.*`.
    pub archive: ArchiveConfig,
    /// `audit.*`.
    pub audit: AuditConfig,
    /// `webhook.*`.
    pub webhook: WebhookConfig,
    /// `metrics.*`.
    pub metrics: MetricsConfig,
    /// The alerts of the toolkit and of the marketplace, with the limits of `alerts.*`.
    pub alerts: Vec<Alert>,
    /// `log.*`.
    pub log: LogConfig,
}

impl Configuration for Config {
    fn read(reader: &Reader<'_>) -> Checked<Config> {
        let listen = listen(reader);
        let http = http(reader, listen);
        let proxies = proxies(reader);
        let limits_store = redis::store(reader, RedisUse::Limits);
        let limits = rate_limit::limits(reader, proxies);
        let redis = redis::redis(reader);
        let database = database(reader);
        let broker = broker(reader, database.as_ref().ok());
        let auth = auth(reader);
        let gateway = gateway_and_assets::gateway(reader);
        let refund = gateway_and_assets::refund(reader);
        let pending_timeout = order_timeout::pending_timeout(reader);
        let timeout = order_timeout::timeout(reader);
        let auto_completion = order_timeout::auto_completion(reader);
        let fee_rate = invoices::fee_rate(reader);
        let invoices = invoices::invoices(reader);
        let outbox = outbox(reader);
        let consumer = consumer(reader);
        let keys_store = redis::store(reader, RedisUse::Keys);
        let requests = idempotency::requests(reader);
        let assets = gateway_and_assets::assets(reader, pending_timeout);
        let consistency = gateway_and_assets::consistency(reader, &assets);
        let event_types: Vec<&str> = descriptions().iter().map(|description| description.name).collect();
        let archive = archive(reader, &event_types);
        let audit = audit(reader);
        let webhook = webhook(reader);
        let metrics = metrics(reader);
        let alerts = alerts(reader, ALERTS.iter().chain(marketplace::ALERTS));
        let log = log(reader);
        let redis = redis.used_by(reader, [limits_store, keys_store]);
        let OutboxConfig { relay, on_failed } = outbox?;
        // Without the first attempt, which is not a retry.
        let max_retry_count = relay.retry.attempts().saturating_sub(1);
        let gateway = gateway?;
        let listen = listen?;
        let http = http?;
        Ok(Config {
            listen,
            limits: limits?,
            redis: redis?,
            database: database?,
            broker: broker?.with_confirm_timeout(relay.confirm_timeout),
            auth: auth?,
            gateway: gateway.config,
            gateway_secret: gateway.secret,
            previous_gateway_secret: gateway.previous_secret,
            rules: Rules {
                pending_timeout: pending_timeout?,
                max_retry_count,
                points: assets.points?,
                fee_rate: fee_rate?,
            },
            on_failed,
            requests: requests?,
            settings: Settings {
                relay,
                consumer: consumer?,
                timeout: timeout?,
                auto_completion: auto_completion?,
                invoices: invoices?,
                refund: refund?,
                consistency: consistency?,
            },
            archive: archive?,
            audit: audit?,
            webhook: webhook?.with_max_retry_count(max_retry_count).with_listens(listens(listen, &http)),
            http,
            metrics: metrics?,
            alerts: alerts?,
            log: log?,
        })
    }
}

fn listens(listen: SocketAddr, http: &HttpConfig) -> Vec<SocketAddr> {
    [listen].into_iter().chain(http.ops_listen).collect()
}

impl Config {
    /// All addresses on which a process with an API listens.
    pub fn listens(&self) -> Vec<SocketAddr> {
        listens(self.listen, &self.http)
    }
}
