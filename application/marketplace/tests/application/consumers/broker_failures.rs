//! Recovery from slow declarations, panics of the broker adapter and failed settlements.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::OutboxStatus;
use handover_memory::MemoryBroker;
use handover_outbox::ConsumerSettings;
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use handover_outbox::wrap::BrokerWrapper;
use marketplace::Settings;
use marketplace::service;

use super::scripted::{Act, QUEUE, Scripted};
use crate::support::{World, eventually, pass, secs};

/// A broker whose first declarations are slow, whose first subscriptions panic, and whose first acks fail while the
/// subscription stays open.
struct UnreliableBroker {
    inner: MemoryBroker,
    slow_declarations: AtomicU32,
    panics: AtomicU32,
    failing_acks: Arc<AtomicU32>,
}

fn unreliable_broker(world: &World, panics: u32, failing_acks: u32) -> Arc<UnreliableBroker> {
    let failing_acks = Arc::new(AtomicU32::new(failing_acks));
    Arc::new(UnreliableBroker {
        inner: world.broker.clone(),
        slow_declarations: AtomicU32::new(0),
        panics: AtomicU32::new(panics),
        failing_acks,
    })
}

/// Duration of a slow declaration: longer than the start of a process waits for it.
const SLOW: Duration = Duration::from_secs(10);

fn use_one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[async_trait]
impl BrokerWrapper for UnreliableBroker {
    fn inner(&self) -> &dyn Broker {
        &self.inner
    }

    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        if use_one(&self.slow_declarations) {
            pass(SLOW).await;
        }
        self.inner().declare(topology).await
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        assert!(!use_one(&self.panics), "panic of the test broker");
        let inner = self.inner().subscribe(queue, prefetch).await?;
        Ok(Box::new(UnreliableSubscription { inner, failing_acks: Arc::clone(&self.failing_acks) }))
    }
}

struct UnreliableSubscription {
    inner: Box<dyn Subscription>,
    failing_acks: Arc<AtomicU32>,
}

#[async_trait]
impl Subscription for UnreliableSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        self.inner.next().await
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        if use_one(&self.failing_acks) {
            return Err(BrokerError::Unreachable("no free connection in time".into()));
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
async fn failed_settlement_does_not_occupy_the_prefetch() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let process = world.process_on(unreliable_broker(&world, 0, 3));
    let settings = ConsumerSettings { prefetch: NonZeroU16::MIN, ..ConsumerSettings::default() };
    process.start_consumer(&handler.subscriber(), settings).await;
    for order in 1..=5 {
        world.commit_and_deliver(&process, &format!("e-{order}"), order, 1).await;
    }
    eventually(secs(4), async || {
        let depth = world.depth(QUEUE).await;
        depth.ready == 0 && depth.unacked == 0
    })
    .await;
    for order in 1..=5 {
        assert_eq!(
            world.effects(order).await,
            [format!("e-{order}")],
            "expected one effect although acks failed"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn panicked_consumer_loop_is_restarted() {
    let world = World::new().await;
    let process = world.process_on(unreliable_broker(&world, 7, 0));
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    pass(secs(5)).await;
    let depths = Broker::queues(&world.broker).await.unwrap();
    let idle: Vec<&str> =
        depths.iter().filter(|depth| depth.consumers == 0).map(|depth| depth.name.as_str()).collect();
    assert_eq!(idle, ["order.timeout.delay.queue"], "only the delay queue may be without a consumer");
}

#[tokio::test(start_paused = true)]
async fn declaration_that_outlasts_the_start_is_completed_and_costs_no_attempt() {
    let world = World::new().await;
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let process = world.process_on(Arc::new(UnreliableBroker {
        inner: MemoryBroker::new(clock),
        slow_declarations: AtomicU32::new(2),
        panics: AtomicU32::new(0),
        failing_acks: Arc::default(),
    }));
    service::prepare(&process.app).await.unwrap();
    service::start(&process.app, &process.wake, &Settings::default());
    process.ordered().await;
    eventually(secs(60), async || {
        world.rows().await.iter().all(|row| row.status == OutboxStatus::Sent && row.retry_count == 0)
    })
    .await;
}
