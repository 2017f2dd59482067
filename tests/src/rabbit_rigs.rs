//! Rigs that run the contract suite on RabbitMQ: one server for all tests of a binary, one vhost per test.

#![allow(clippy::disallowed_methods, reason = "a real server runs in real time")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::Broker;
use handover_rabbitmq::{QueueType, RabbitBroker, RabbitSettings};
use tokio::sync::OnceCell;

use crate::servers::rabbitmq::{Encryption, RabbitServer, TestVhost};
use handover_contract::TIMEOUT;
use handover_contract::broker::{BrokerCapabilities, BrokerRig};

static SERVER: OnceCell<Arc<RabbitServer>> = OnceCell::const_new();

/// The server shared by all tests of this binary.
pub async fn shared() -> &'static Arc<RabbitServer> {
    SERVER.get_or_try_init(|| RabbitServer::start(Encryption::Offered)).await.expect("RabbitMQ must start")
}

pub struct RabbitBrokerRig {
    pub broker: RabbitBroker,
    pub vhost: TestVhost,
    queue_type: QueueType,
}

impl RabbitBrokerRig {
    /// A broker without any declared topology, in its own vhost on the shared server.
    pub async fn new(queue_type: QueueType) -> RabbitBrokerRig {
        RabbitBrokerRig::on(shared().await, queue_type).await
    }

    /// A broker without any declared topology, in its own vhost on this server.
    pub async fn on(server: &Arc<RabbitServer>, queue_type: QueueType) -> RabbitBrokerRig {
        let vhost = server.vhost().await.expect("cannot create a vhost");
        RabbitBrokerRig { broker: RabbitBroker::new(patient(&vhost.url(), queue_type)), vhost, queue_type }
    }
}

pub fn settings(url: &str, queue_type: QueueType) -> RabbitSettings {
    let mut settings = RabbitSettings::parse(url).expect("a valid URL");
    settings.queue_type = queue_type;
    settings
}

/// Settings with long timeouts, so that a busy server counts as slow, not as unreachable.
pub fn patient(url: &str, queue_type: QueueType) -> RabbitSettings {
    let mut settings = settings(url, queue_type);
    settings.connect_timeout = TIMEOUT;
    settings.confirm_timeout = TIMEOUT;
    settings.reply_timeout = TIMEOUT;
    settings
}

#[async_trait]
impl BrokerRig for RabbitBrokerRig {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.broker.clone())
    }

    async fn advance(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    fn capabilities(&self) -> BrokerCapabilities {
        BrokerCapabilities {
            counts_unacked: true,
            requeues_near_the_head: match self.queue_type {
                QueueType::Quorum => false,
                QueueType::Classic => true,
            },
            simulated_clock: false,
            shows_oldest_ready: false,
        }
    }

    async fn reopened(&self) -> Option<Arc<dyn Broker>> {
        Some(Arc::new(RabbitBroker::new(patient(&self.vhost.url(), self.queue_type))))
    }
}
