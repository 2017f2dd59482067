//! The contract of the port `Broker`, kept on RabbitMQ, started here.

use handover_rabbitmq::QueueType;
use handover_tests::broker_contract;
use handover_tests::rabbit_rigs::RabbitBrokerRig;

broker_contract!(quorum, async || RabbitBrokerRig::new(QueueType::Quorum).await);
broker_contract!(classic, async || RabbitBrokerRig::new(QueueType::Classic).await);
