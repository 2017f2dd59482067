//! The broker on RabbitMQ, ready for the contract suite: one server for all tests of a binary, a vhost for each.

#![allow(clippy::disallowed_methods, reason = "a real server runs on real time")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::Broker;
use handover_rabbitmq::{QueueType, RabbitBroker, RabbitSettings};
use tokio::sync::OnceCell;

use crate::servers::rabbitmq::{Encryption, RabbitServer, TestVhost};
use handover_contract::PATIENCE;
use handover_contract::broker::{BrokerCapabilities, BrokerRig};

static SERVER: OnceCell<Arc<RabbitServer>> = OnceCell::const_new();

/// The server that all tests of this binary share.
pub async fn shared() -> &'static Arc<RabbitServer> {
    SERVER.get_or_try_init(|| RabbitServer::start(Encryption::Offered)).await.expect("RabbitMQ starts")
}

/// The broker on RabbitMQ.
pub struct RabbitBrokerRig {
    /// The broker.
    pub broker: RabbitBroker,
    /// Its vhost.
    pub vhost: TestVhost,
    queue_type: QueueType,
}

impl RabbitBrokerRig {
    /// A broker with nothing declared, in a vhost of its own on the shared server.
    pub async fn new(queue_type: QueueType) -> RabbitBrokerRig {
        RabbitBrokerRig::on(shared().await, queue_type).await
    }

    /// A broker with nothing declared, in a vhost of its own on this server.
    pub async fn on(server: &Arc<RabbitServer>, queue_type: QueueType) -> RabbitBrokerRig {
        let vhost = server.vhost().await.expect("a vhost is made");
        RabbitBrokerRig { broker: RabbitBroker::new(patient(&vhost.url(), queue_type)), vhost, queue_type }
    }
}

/// Settings for this URL.
pub fn settings(url: &str, queue_type: QueueType) -> RabbitSettings {
    let mut settings = RabbitSettings::parse(url).expect("the URL is one");
    settings.queue_type = queue_type;
    settings
}

/// Settings for this URL, with which a busy server is slow and not away.
pub fn patient(url: &str, queue_type: QueueType) -> RabbitSettings {
    let mut settings = settings(url, queue_type);
    settings.connect_timeout = PATIENCE;
    settings.confirm_timeout = PATIENCE;
    settings.answer_timeout = PATIENCE;
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
            stands_still: false,
        }
    }

    async fn reopened(&self) -> Option<Arc<dyn Broker>> {
        Some(Arc::new(RabbitBroker::new(patient(&self.vhost.url(), self.queue_type))))
    }
}
