//! A broker that fails in odd ways keeps no consumer from its work.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use handover_memory::MemoryBroker;
use handover_outbox::ConsumerSettings;
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use marketplace::Settings;
use marketplace::service::{self, Roles};

use super::scripted::{Act, QUEUE, Scripted};
use crate::support::{World, eventually, pass, secs};

/// A broker that panics at its first subscriptions, and refuses the first settlements while the subscription lives on.
struct Grudging {
    inner: MemoryBroker,
    panics: AtomicU32,
    refusals: Arc<AtomicU32>,
}

fn grudging(world: &World, panics: u32, refusals: u32) -> Arc<Grudging> {
    let refusals = Arc::new(AtomicU32::new(refusals));
    Arc::new(Grudging { inner: world.broker.clone(), panics: AtomicU32::new(panics), refusals })
}

fn strikes(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl Broker for Grudging {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.inner.publish(window).await
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        assert!(!strikes(&self.panics), "a bug in the adapter");
        let inner = self.inner.subscribe(queue, prefetch).await?;
        Ok(Box::new(GrudgingSubscription { inner, refusals: Arc::clone(&self.refusals) }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner.queues().await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct GrudgingSubscription {
    inner: Box<dyn Subscription>,
    refusals: Arc<AtomicU32>,
}

#[async_trait]
impl Subscription for GrudgingSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        self.inner.next().await
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        if strikes(&self.refusals) {
            return Err(BrokerError::Unreachable("no connection was free in time".into()));
        }
        self.inner.ack(tags).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_fails_keeps_no_place_in_the_prefetch() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let process = world.process_on(grudging(&world, 0, 3));
    let settings = ConsumerSettings { prefetch: NonZeroU16::MIN, ..ConsumerSettings::default() };
    process.start_consumer(&handler.subscriber(), settings).await;
    for order in 1..=5 {
        world.arrived(&process, &format!("e-{order}"), order, 1).await;
    }
    eventually(secs(4), async || {
        let depth = world.depth(QUEUE).await;
        depth.ready == 0 && depth.unacked == 0
    })
    .await;
    for order in 1..=5 {
        assert_eq!(world.effects(order).await, [format!("e-{order}")], "once, whatever became of the ack");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_begins_anew() {
    let world = World::new().await;
    let process = world.process_on(grudging(&world, 7, 0));
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, Roles::ALL, &Settings::default());
    pass(secs(5)).await;
    let depths = Broker::queues(&world.broker).await.unwrap();
    let idle: Vec<&str> =
        depths.iter().filter(|depth| depth.consumers == 0).map(|depth| depth.name.as_str()).collect();
    assert_eq!(idle, ["order.timeout.delay.queue"], "the only queue without a consumer");
}
