//! The shortest path from commit to effect: insert and commit, publish and await the confirm, receive the message,
//! insert and commit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use handover_outbox::ports::Clock as _;
use handover_system::SystemClock;
use marketplace::consumers::INVENTORY_QUEUE;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::routes::Routes;
use crate::backlog;
use crate::baseline::{BaselineError, Connection, Order, RabbitConnection};
use crate::error::{BenchError, baseline_error, service_error};
use crate::event_latencies::Latencies;
use crate::fixture::Fixture;
use crate::port_recorder::EventTimes;

/// The consumer's name in the consume log.
const CONSUMER: &str = "inventory";
const PREFETCH: u16 = 20;

/// The commit time of an event, and the times at which it passed the broker.
#[derive(Clone, Copy)]
struct Recorded {
    committed: Instant,
    times: EventTimes,
}

/// One round, shared by the consumer and the tasks that place orders.
pub(crate) struct LatencyRun {
    idle: Mutex<Vec<Connection>>,
    /// Has as many permits as `idle` has connections at the start.
    permits: Semaphore,
    rabbitmq: Option<RabbitConnection>,
    routes: Routes,
    /// Recorded times by event id.
    recorded: Mutex<HashMap<String, Recorded>>,
    enqueued: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LatencyRun {
    /// Places `warm_up` + `orders` orders at this rate and waits for the effects of all of them. The result omits the
    /// first `warm_up` orders.
    pub(crate) async fn execute(
        fixture: &Fixture,
        rate: u32,
        warm_up: u32,
        orders: u32,
    ) -> Result<Latencies, BenchError> {
        let run = Arc::new(LatencyRun::open(fixture).await?);
        let connection = fixture.connection().await?;
        let rabbitmq = fixture.rabbitmq().await?;
        let all = u64::from(warm_up) + u64::from(orders);
        let mut tasks = JoinSet::new();
        let consumer = Arc::clone(&run);
        tasks.spawn(async move {
            match rabbitmq {
                Some(rabbitmq) => consumer.consume_rabbitmq(connection, rabbitmq, all).await,
                None => consumer.consume_table(connection, all).await,
            }
            .map_err(baseline_error("the consumer of the baseline"))
        });
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for n in 0..warm_up + orders {
            ticks.tick().await;
            let order = Order {
                id: i64::from(n) + 1,
                tenant_id: 1,
                product_id: i64::from(n) + 1,
                buyer_id: backlog::buyer(n)?.get(),
                at: SystemClock.now(),
            };
            let run = Arc::clone(&run);
            tasks.spawn(
                async move { run.place(order).await.map_err(baseline_error("an order of the baseline")) },
            );
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(service_error)??;
        }
        let mut latencies = Latencies::default();
        let mut recorded: Vec<Recorded> = lock(&run.recorded).values().copied().collect();
        recorded.sort_by_key(|event| event.committed);
        for event in recorded.into_iter().skip(usize::try_from(warm_up).unwrap_or(0)) {
            latencies.add(event.committed, event.times)?;
        }
        Ok(latencies)
    }

    async fn open(fixture: &Fixture) -> Result<LatencyRun, BenchError> {
        let mut idle = Vec::new();
        for _ in 0..fixture.connections() {
            idle.push(fixture.connection().await?);
        }
        Ok(LatencyRun {
            permits: Semaphore::new(idle.len()),
            idle: Mutex::new(idle),
            rabbitmq: fixture.rabbitmq().await?,
            routes: Routes::of(fixture),
            recorded: Mutex::default(),
            enqueued: Notify::new(),
        })
    }

    async fn place(&self, order: Order) -> Result<(), BaselineError> {
        let Ok(_permit) = self.permits.acquire().await else { return Ok(()) };
        let Some(mut connection) = lock(&self.idle).pop() else { return Ok(()) };
        let placed = connection.place(&order).await?;
        let committed = Instant::now();
        let events = order.events(&placed);
        let created = events.first().map(|event| event.event_id.clone()).unwrap_or_default();
        self.routes.publish(&mut connection, self.rabbitmq.as_ref(), &events).await?;
        let confirmed = Instant::now();
        lock(&self.idle).push(connection);
        let mut recorded = lock(&self.recorded);
        let event = recorded.entry(created).or_insert(Recorded { committed, times: EventTimes::default() });
        event.committed = committed;
        event.times.published = Some(committed);
        event.times.confirmed = Some(confirmed);
        drop(recorded);
        self.enqueued.notify_one();
        Ok(())
    }

    async fn consume_rabbitmq(
        &self,
        mut connection: Connection,
        rabbitmq: RabbitConnection,
        all: u64,
    ) -> Result<(), BaselineError> {
        let mut deliveries = rabbitmq.consume(INVENTORY_QUEUE, PREFETCH).await?;
        let mut left = all;
        while left > 0 {
            let delivered = deliveries.next().await?;
            let at = Instant::now();
            connection.begin().await?;
            let events = connection.apply(CONSUMER, &delivered.bodies, SystemClock.now()).await?;
            connection.commit().await?;
            left = left.saturating_sub(self.record_effects(events, at));
            deliveries.ack(&delivered).await?;
        }
        rabbitmq.close().await
    }

    async fn consume_table(&self, mut connection: Connection, all: u64) -> Result<(), BaselineError> {
        let mut left = all;
        while left > 0 {
            let enqueued = self.enqueued.notified();
            let at = Instant::now();
            let prefetch = u32::from(PREFETCH);
            let events = connection.consume(INVENTORY_QUEUE, CONSUMER, prefetch, SystemClock.now()).await?;
            if events.is_empty() {
                enqueued.await;
                continue;
            }
            left = left.saturating_sub(self.record_effects(events, at));
        }
        Ok(())
    }

    /// Records that these events had their effect now, and returns their number.
    fn record_effects(&self, events: Vec<String>, delivered: Instant) -> u64 {
        let now = Instant::now();
        let count = u64::try_from(events.len()).unwrap_or(0);
        let mut recorded = lock(&self.recorded);
        for event in events {
            // RabbitMQ may deliver a message before the publisher has seen its confirm and recorded the commit.
            let first = Recorded { committed: now, times: EventTimes::default() };
            let event = recorded.entry(event).or_insert(first);
            event.times.delivered = Some(delivered);
            event.times.acked = Some(now);
        }
        count
    }
}
