//! The toolkit's sections of a configuration: keys with defaults, limits and reasons.

mod alerts;
mod archive;
mod audit;
mod auth;
mod consumer;
mod http;
mod log;
mod metrics;
mod outbox;
mod retry;
mod servers;
mod webhook;

use handover_outbox::state::ALERTS;
use handover_outbox::{Alert, ConsumerSettings};

use crate::config::{Checked, Reader};

pub use alerts::alerts;
pub use archive::{ARCHIVE_URL, ArchiveConfig, archive};
pub use audit::{AuditConfig, audit};
pub(crate) use auth::read_keys;
pub use auth::{AuthConfig, JWKS_FILE, JWT_SECRET, PREVIOUS_JWT_SECRET, auth};
pub use consumer::consumer;
pub use http::{HttpConfig, LISTEN, LISTEN_DEFAULT, http, listen, proxies};
pub use log::{LogConfig, LogFormat, log};
pub use metrics::{MetricsConfig, metrics};
pub use outbox::{MAX_BATCH, OutboxConfig, outbox};
pub use servers::{
    BrokerChoice, DATABASE_DEFAULT, DATABASE_URL, DatabaseChoice, broker, certificates, database,
};
pub use webhook::{PREVIOUS_WEBHOOK_KEY, WEBHOOK_KEY, WebhookConfig, webhook};

/// The toolkit's sections. A program reads them with [`ToolkitConfig::read`], or section by section among its own.
#[derive(Debug, Clone)]
pub struct ToolkitConfig {
    /// `database.*`.
    pub database: DatabaseChoice,
    /// `broker.*` and `rabbitmq.*`.
    pub broker: BrokerChoice,
    /// `outbox.*`.
    pub outbox: OutboxConfig,
    /// `consumer.*`.
    pub consumer: ConsumerSettings,
    /// `webhook.*`.
    pub webhook: WebhookConfig,
    /// `metrics.*`.
    pub metrics: MetricsConfig,
    /// The alerts of the toolkit, with the limits of `alerts.*`.
    pub alerts: Vec<Alert>,
    /// `log.*`.
    pub log: LogConfig,
}

impl ToolkitConfig {
    /// Reads all sections.
    pub fn read(reader: &Reader<'_>) -> Checked<ToolkitConfig> {
        let database = database(reader);
        let broker = broker(reader, database.as_ref().ok());
        let outbox = outbox(reader);
        let consumer = consumer(reader);
        let webhook = webhook(reader);
        let metrics = metrics(reader);
        let alerts = alerts(reader, ALERTS);
        let log = log(reader);
        let outbox = outbox?;
        Ok(ToolkitConfig {
            database: database?,
            broker: broker?.with_confirm_timeout(outbox.relay.confirm_timeout),
            outbox,
            consumer: consumer?,
            webhook: webhook?,
            metrics: metrics?,
            alerts: alerts?,
            log: log?,
        })
    }
}

#[cfg(test)]
mod tests {
    use handover_outbox::RelaySettings;

    use super::*;
    use crate::config::{Configuration, Sources};

    struct Toolkit(ToolkitConfig);

    impl Configuration for Toolkit {
        fn read(reader: &Reader<'_>) -> Checked<Toolkit> {
            ToolkitConfig::read(reader).map(Toolkit)
        }
    }

    fn sources(variables: &[(&str, &str)]) -> Sources {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Sources { variables: variables.collect(), ..Sources::default() }
    }

    #[test]
    fn defaults_are_those_of_the_toolkit() {
        let Toolkit(config) = Toolkit::load(&sources(&[])).unwrap();
        assert_eq!(config.database.to_string(), "handover.db");
        assert!(matches!(config.broker, BrokerChoice::Database));
        assert_eq!(format!("{:?}", config.outbox.relay), format!("{:?}", RelaySettings::default()));
        assert_eq!(format!("{:?}", config.consumer), format!("{:?}", ConsumerSettings::default()));
    }

    #[test]
    fn every_invalid_key_is_reported_in_one_pass() {
        let errors = Toolkit::load(&sources(&[
            ("HANDOVER_DATABASE__URL", "postgres://u@h/d"),
            ("HANDOVER_DATABASE__CONNECTIONS", "1"),
            ("HANDOVER_DATABASE__CA_FILE", "/nowhere"),
            ("HANDOVER_BROKER__URL", "amqp://h/"),
            ("HANDOVER_BROKER__CA_FILE", "/nowhere"),
            ("HANDOVER_RABBITMQ__QUEUE_TYPE", "x"),
            ("HANDOVER_RABBITMQ__MANAGEMENT_URL", "x"),
            ("HANDOVER_OUTBOX__BATCH", "0"),
            ("HANDOVER_OUTBOX__RETRY", "5s"),
            ("HANDOVER_CONSUMER__RETRY_THRESHOLD", "-1"),
            ("HANDOVER_CONSUMER__BACKOFF", "5s"),
            ("HANDOVER_CONSUMER__LEASE", "0s"),
            ("HANDOVER_METRICS__LISTEN", "9090"),
            ("HANDOVER_LOG__FORMAT", "xml"),
            ("HANDOVER_LOG__TRACES", "x"),
        ]));
        let errors = errors.err().unwrap();
        let mut keys: Vec<&str> = errors.iter().filter_map(|error| error.key()).collect();
        keys.sort_unstable();
        let expected = [
            "broker.ca-file",
            "consumer.backoff",
            "consumer.lease",
            "consumer.retry-threshold",
            "database.ca-file",
            "database.connections",
            "log.format",
            "log.traces",
            "metrics.listen",
            "outbox.batch",
            "outbox.retry",
            "rabbitmq.management-url",
            "rabbitmq.queue-type",
        ];
        assert_eq!(keys, expected);
    }
}
