//! A scripted handler. Its effect is one shipment task per event, so that a repeated effect is visible.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::{ConsumerSettings, Tasks};
use marketplace::consumers::WEBHOOK_QUEUE;
use marketplace::ports::*;
use marketplace_domain::{EventKind, OrderId};

use crate::support::{Process, TENANT, World};

pub(crate) const NAME: &str = "scripted";
/// Queue of the handler. Its dead letters are parked under this name.
pub(crate) const QUEUE: &str = WEBHOOK_QUEUE;

/// One call of the handler.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) at: DateTime<Utc>,
    pub(crate) events: Vec<String>,
}

/// Behavior of the handler in one call.
#[derive(Clone)]
pub(crate) enum Act {
    Apply,
    Fail,
    /// Fails recoverably with this error.
    FailAs(String),
    FailPermanently,
    Panic,
    Hang,
    Conflict,
    /// A statement fails because a right is missing.
    Fault,
    Kill(Tasks),
}

type Script = Box<dyn Fn(&[String], u32) -> Act + Send + Sync>;

/// A handler of ORDER_STATUS_CHANGED.
pub(crate) struct Scripted {
    script: Script,
    calls: Mutex<Vec<Call>>,
    clock: Arc<dyn Clock>,
}

impl Scripted {
    /// Creates a handler. The script receives the event ids of a call and the number of earlier calls with the first
    /// id.
    pub(crate) fn new(
        world: &World,
        script: impl Fn(&[String], u32) -> Act + Send + Sync + 'static,
    ) -> Arc<Scripted> {
        let clock = Arc::new(world.clock.clone());
        Arc::new(Scripted { script: Box::new(script), calls: Mutex::default(), clock })
    }

    pub(crate) fn subscriber(self: &Arc<Self>) -> Subscriber<Work> {
        Subscriber::new(QUEUE, Arc::clone(self) as Arc<dyn Handler<Work>>)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.locked().clone()
    }

    /// Times of the calls with this event.
    pub(crate) fn times(&self, id: &str) -> Vec<DateTime<Utc>> {
        let calls = self.calls();
        calls.iter().filter(|call| call.events.iter().any(|event| event == id)).map(|call| call.at).collect()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Handler<Work> for Scripted {
    fn name(&self) -> &str {
        NAME
    }

    fn event_types(&self) -> Vec<&str> {
        vec![EventKind::OrderStatusChanged.as_str()]
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let ids: Vec<String> = events.iter().map(|event| event.row.event_id.to_string()).collect();
        let before = self.times(&ids[0]).len();
        self.locked().push(Call { at: self.clock.now(), events: ids.clone() });
        match (self.script)(&ids, u32::try_from(before).unwrap()) {
            Act::Apply => {}
            Act::Fail => return Err(HandlerError::Recoverable("service unavailable".into())),
            Act::FailAs(why) => return Err(HandlerError::Recoverable(why)),
            Act::FailPermanently => return Err(HandlerError::Unrecoverable("request rejected".into())),
            Act::Panic => panic!("panic of the scripted handler"),
            Act::Hang => std::future::pending().await,
            Act::Conflict => {
                return Err(StoreError::Conflict { what: "a unique key of the handler".into() }.into());
            }
            Act::Fault => {
                let fault = SystemFault {
                    kind: SystemFaultKind::Rights,
                    is_rolled_back: true,
                    cause: "permission denied for table shipments".into(),
                };
                return Err(StoreError::Unavailable(Box::new(fault)).into());
            }
            Act::Kill(tasks) => {
                tasks.kill();
                std::future::pending().await
            }
        }
        for event in events {
            write_effect(unit, event, self.clock.now()).await?;
        }
        Ok(events.iter().map(|_| Applied::result("done")).collect())
    }
}

/// Writes a shipment task. Each event gets a separate order id, because an order can have only one task.
pub(crate) async fn write_effect(
    unit: &mut Work,
    event: &Event,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    let orders = orders_of_effects(event.row.aggregate.id.number());
    let before = unit.effects_of(EffectKind::Shipment, TENANT, &orders).await?.len();
    let task = NewShipmentTask {
        tenant: TENANT,
        order: orders[before],
        seller: 20.try_into().unwrap(),
        buyer: 10.try_into().unwrap(),
        aggregate_seq: event.row.aggregate_seq,
        event_id: event.row.event_id.clone(),
        at,
    };
    unit.open_shipments(&[task]).await
}

fn orders_of_effects(aggregate: i64) -> Vec<OrderId> {
    (0..100).map(|n| (aggregate * 1_000 + n).try_into().unwrap()).collect()
}

impl World {
    /// Ids of the events of an order that took effect, in the sequence of their effects.
    pub(crate) async fn effects(&self, order: i64) -> Vec<String> {
        let orders = orders_of_effects(order);
        let mut tasks = self.view().await.effects_of(EffectKind::Shipment, TENANT, &orders).await.unwrap();
        tasks.sort();
        tasks.into_iter().map(|task| task.event_id.to_string()).collect()
    }

    /// Commits an event of an order through a process.
    pub(crate) async fn commit_event(&self, process: &Process, id: &str, order: i64, seq: i64) {
        process.commit(vec![self.event(id, seq, &crate::support::sample::changed(order))]).await;
    }

    /// Commits an event of an order and delivers its message.
    pub(crate) async fn commit_and_deliver(&self, process: &Process, id: &str, order: i64, seq: i64) {
        self.commit_event(process, id, order, seq).await;
        self.deliver(QUEUE, id).await;
    }

    /// Whether the queue has no ready and no unacked messages.
    pub(crate) async fn is_drained(&self, queue: &str) -> bool {
        let depth = self.depth(queue).await;
        (depth.ready, depth.unacked) == (0, 0)
    }
}

/// A deployment with one process that runs a scripted consumer and the dead-letter drainer.
pub(crate) async fn consuming(
    script: impl Fn(&[String], u32) -> Act + Send + Sync + 'static,
) -> (World, Process, Arc<Scripted>) {
    let world = World::new().await;
    let handler = Scripted::new(&world, script);
    let process = world.process();
    process.start_drainer(&[handler.subscriber()]);
    process.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    (world, process, handler)
}
