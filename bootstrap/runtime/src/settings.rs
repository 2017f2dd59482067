//! The toolkit's sections of a configuration: keys with defaults, limits and reasons.

mod consumer;
mod http;
mod log;
mod outbox;
mod retry;
mod servers;

use handover_outbox::{ConsumerSettings, RelaySettings};

use crate::config::{Checked, Reader};

pub use consumer::consumer;
pub use http::{LISTEN, LISTEN_DEFAULT, listen, ops_listen};
pub use log::{LogConfig, LogFormat, log};
pub use outbox::{MAX_BATCH, relay};
pub use servers::{
    BrokerChoice, DATABASE_DEFAULT, DATABASE_URL, DatabaseChoice, broker, certificates, database,
};

/// The toolkit's sections. A program reads them with [`ToolkitConfig::read`], or section by section among its own.
#[derive(Debug, Clone)]
pub struct ToolkitConfig {
    /// `database.*`.
    pub database: DatabaseChoice,
    /// `broker.*` and `rabbitmq.*`.
    pub broker: BrokerChoice,
    /// `outbox.*`.
    pub relay: RelaySettings,
    /// `consumer.*`.
    pub consumer: ConsumerSettings,
    /// `log.*`.
    pub log: LogConfig,
}

impl ToolkitConfig {
    /// Reads all sections.
    pub fn read(reader: &Reader<'_>) -> Checked<ToolkitConfig> {
        let database = database(reader);
        let broker = broker(reader, database.as_ref().ok());
        let relay = relay(reader);
        let consumer = consumer(reader);
        let log = log(reader);
        let relay = relay?;
        Ok(ToolkitConfig {
            database: database?,
            broker: broker?.with_confirm_timeout(relay.confirm_timeout),
            relay,
            consumer: consumer?,
            log: log?,
        })
    }
}
