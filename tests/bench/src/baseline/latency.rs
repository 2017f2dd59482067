//! The plainest chain: insert and commit, publish and wait for the confirm, take what is delivered, insert and commit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::baseline::{BareError, BareQueue, Event, Order, Session};
use chrono::TimeDelta;
use handover_application::ports::Clock as _;
use handover_application::topology::{EXCHANGE, INVENTORY_QUEUE};
use handover_system::SystemClock;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::{queues, routing_key};
use crate::backlog;
use crate::error::{failed, odd};
use crate::fixture::Ground;
use crate::latency::Waits;
use crate::port_recorder::Moments;
use handover::Failure;

/// The name in the log.
const CONSUMER: &str = "inventory";
/// How many messages it takes at a time.
const PREFETCH: u16 = 20;

type Noted = Mutex<HashMap<String, (Instant, Moments)>>;

/// Where a kind of event goes: its key, and in the database broker its queues and how long it lasts there.
struct Way {
    key: String,
    queues: Vec<(String, Option<TimeDelta>)>,
}

/// What placers and consumer share.
pub(crate) struct Chain {
    idle: Mutex<Vec<Session>>,
    free: Semaphore,
    broker: Option<BareQueue>,
    /// Where each kind of event goes.
    routes: HashMap<&'static str, Way>,
    noted: Noted,
    rung: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Chain {
    /// Places `orders` orders at this rate after some to warm up, and sees all of them through.
    pub(crate) async fn run(ground: &Ground, rate: u32, warm: u32, orders: u32) -> Result<Waits, Failure> {
        let chain = Arc::new(Chain::open(ground).await?);
        let (session, queue) = (ground.session().await?, ground.queue().await?);
        let all = u64::from(warm) + u64::from(orders);
        let mut tasks = JoinSet::new();
        let consumer = Arc::clone(&chain);
        tasks.spawn(async move {
            match queue {
                Some(queue) => consumer.consume_queue(session, queue, all).await,
                None => consumer.consume_table(session, all).await,
            }
            .map_err(failed("the plain consumer"))
        });
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for n in 0..warm + orders {
            ticks.tick().await;
            let order = Order {
                id: i64::from(n) + 1,
                tenant_id: 1,
                product_id: i64::from(n) + 1,
                buyer_id: backlog::buyer(n)?.get(),
                at: SystemClock.now(),
            };
            let chain = Arc::clone(&chain);
            tasks.spawn(async move { chain.place(order).await.map_err(failed("a plain order")) });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(odd)??;
        }
        let mut waits = Waits::default();
        let mut noted: Vec<_> = lock(&chain.noted).values().copied().collect();
        noted.sort_by_key(|(committed, _)| *committed);
        for (committed, moments) in noted.into_iter().skip(usize::try_from(warm).unwrap_or(0)) {
            waits.add(committed, moments)?;
        }
        Ok(waits)
    }

    async fn open(ground: &Ground) -> Result<Chain, Failure> {
        let mut idle = Vec::new();
        for _ in 0..ground.connections() {
            idle.push(ground.session().await?);
        }
        let mut routes = HashMap::new();
        for kind in ["ORDER_CREATED", "ORDER_TIMEOUT"] {
            let key = routing_key(ground, kind)?;
            let queues = queues(ground, &key)
                .into_iter()
                .map(|(queue, ttl)| (queue.to_owned(), ttl.and_then(|ttl| TimeDelta::from_std(ttl).ok())))
                .collect();
            routes.insert(kind, Way { key, queues });
        }
        Ok(Chain {
            free: Semaphore::new(idle.len()),
            idle: Mutex::new(idle),
            broker: ground.queue().await?,
            routes,
            noted: Mutex::default(),
            rung: Notify::new(),
        })
    }

    async fn place(&self, order: Order) -> Result<(), BareError> {
        let Ok(_permit) = self.free.acquire().await else { return Ok(()) };
        let Some(mut session) = lock(&self.idle).pop() else { return Ok(()) };
        let placed = session.place(&order).await?;
        let committed = Instant::now();
        let events = order.events(&placed);
        let created = events.first().map(|event| event.event_id.clone()).unwrap_or_default();
        match &self.broker {
            Some(broker) => {
                let keyed: Vec<(&str, &Event)> = events
                    .iter()
                    .filter_map(|event| {
                        Some((self.routes.get(event.event_type.as_str())?.key.as_str(), event))
                    })
                    .collect();
                broker.publish(EXCHANGE, &keyed).await?;
            }
            None => {
                let now = SystemClock.now();
                let mut rows = Vec::new();
                for event in &events {
                    let queues = self.routes.get(event.event_type.as_str()).map(|way| &way.queues);
                    rows.extend(
                        queues
                            .into_iter()
                            .flatten()
                            .map(|(queue, ttl)| (queue.as_str(), ttl.map(|ttl| now + ttl), event)),
                    );
                }
                session.enqueue(&rows).await?;
            }
        }
        let confirmed = Instant::now();
        lock(&self.idle).push(session);
        let mut noted = lock(&self.noted);
        let (at, moments) = noted.entry(created).or_insert((committed, Moments::default()));
        *at = committed;
        (moments.handed_over, moments.confirmed) = (Some(committed), Some(confirmed));
        drop(noted);
        self.rung.notify_one();
        Ok(())
    }

    async fn consume_queue(&self, mut session: Session, queue: BareQueue, all: u64) -> Result<(), BareError> {
        let mut deliveries = queue.consume(INVENTORY_QUEUE, PREFETCH).await?;
        let mut left = all;
        while left > 0 {
            let delivered = deliveries.next().await?;
            let at = Instant::now();
            session.begin().await?;
            let events = session.apply(CONSUMER, &delivered.bodies, SystemClock.now()).await?;
            session.commit().await?;
            left = left.saturating_sub(self.applied(events, at));
            deliveries.ack(&delivered).await?;
        }
        queue.close().await
    }

    async fn consume_table(&self, mut session: Session, all: u64) -> Result<(), BareError> {
        let mut left = all;
        while left > 0 {
            let rung = self.rung.notified();
            let at = Instant::now();
            let events =
                session.consume(INVENTORY_QUEUE, CONSUMER, u32::from(PREFETCH), SystemClock.now()).await?;
            if events.is_empty() {
                rung.await;
                continue;
            }
            left = left.saturating_sub(self.applied(events, at));
        }
        Ok(())
    }

    /// Notes that these took effect just now; tells how many.
    fn applied(&self, events: Vec<String>, delivered: Instant) -> u64 {
        let (now, mut noted) = (Instant::now(), lock(&self.noted));
        let count = u64::try_from(events.len()).unwrap_or(0);
        for event in events {
            let (_, moments) = noted.entry(event).or_insert((now, Moments::default()));
            (moments.delivered, moments.acked) = (Some(delivered), Some(now));
        }
        count
    }
}
