//! The description of a consumer: its queue, its event types, its effect, and how the effect is found again. Topology,
//! bindings, AsyncAPI document, reconciliation, repair, timeline and documentation follow from it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::EventId;
use marketplace_domain::{
    AssetOperation, CancelReason, EventBody, EventKind, OperationKey, Order, OrderStatus, PointsRules,
};

use crate::events::EventSource;
use crate::ports::{MarketView, Work};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError, Subscriber};
use handover_outbox::ports::{Consumed, OutboxRow, StoreError};
use handover_outbox::topology::{QueueSpec, Topology};

/// A consumer. The trait has no default methods, so that a new consumer does not compile until it has stated all of this.
#[async_trait]
pub trait Consumer: Send + Sync + 'static {
    /// Name in the consume log, in log lines and in metrics.
    fn name(&self) -> &str;

    /// Event types that it applies.
    fn event_types(&self) -> Vec<&str>;

    /// Its queue. `pending_timeout` is the payment deadline of orders.
    fn queue(&self, pending_timeout: Duration) -> Queue;

    /// Description of its effect for the documentation, in Markdown.
    fn effect(&self) -> &'static str;

    /// The parties of an order that see the effect and the result of this consumer in the timeline.
    fn audience(&self) -> Audience;

    /// Applies events in the order given ([`Handler::apply`]).
    async fn apply(
        &self,
        context: &HandlerContext,
        unit: &mut Work,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError>;

    /// Reads the effects of this consumer on these orders. MUST return one value per order, in the order given.
    async fn read_effects(
        &self,
        view: &mut dyn MarketView,
        orders: &[Order],
    ) -> Result<Vec<Box<dyn StoredEffects>>, StoreError>;

    /// Writes the missing rows of an effect that other rows prove to have happened. MUST NOT repeat the effect. Returns
    /// `false` without a change if there is no such proof; the event is then applied again.
    async fn restore(&self, unit: &mut Work, lost: &LostEffect<'_>) -> Result<bool, StoreError>;
}

/// Queue of a consumer. Messages that the consumer rejects are dead-lettered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    pub name: String,
    /// Binding patterns: `*` matches one word, `#` any number of words.
    pub bindings: Vec<String>,
    /// The queue in which messages wait before they are routed to this one.
    pub delay: Option<QueueSpec>,
    /// Whether events for which the consumer has no work are not delivered to it.
    pub is_selective: bool,
}

impl Queue {
    /// A queue with these binding patterns, without a delay.
    pub fn bound_to(name: &str, bindings: &[&str]) -> Queue {
        let bindings = bindings.iter().map(|key| (*key).to_owned()).collect();
        Queue { name: name.to_owned(), bindings, delay: None, is_selective: false }
    }

    /// A queue that receives the events of these types.
    pub fn of_events(name: &str, events: &[EventKind]) -> Queue {
        let keys: Vec<&str> = events.iter().map(|event| event.routing_key()).collect();
        Queue::bound_to(name, &keys)
    }
}

impl Queue {
    /// The same queue, to which events without work for the consumer are not delivered.
    pub fn selective(self) -> Queue {
        Queue { is_selective: true, ..self }
    }

    /// Intended delay of the messages that wait in the delay queue.
    pub fn delay(&self) -> Duration {
        self.delay.as_ref().and_then(|delay| delay.ttl).unwrap_or_default()
    }
}

/// Names of event types.
pub(crate) fn names_of(events: &[EventKind]) -> Vec<&str> {
    events.iter().map(|event| event.as_str()).collect()
}

/// The parties of an order that see an effect. Operators see every effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Parties,
    /// The effect concerns the assets of the buyer; the seller does not see it.
    Buyer,
    /// The effect concerns the operator of the tenant.
    Operators,
}

/// What the handlers of a process use.
#[derive(Clone)]
pub struct HandlerContext {
    /// Ids and times of the events that handlers append.
    pub events: EventSource,
    /// Time within which an order must be paid.
    pub pending_timeout: Duration,
    pub points: PointsRules,
}

impl HandlerContext {
    /// Current time of the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.events.now()
    }

    /// Creation time at or before which a pending order is overdue.
    pub(crate) fn overdue_cutoff(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        TimeDelta::from_std(self.pending_timeout)
            .ok()
            .and_then(|timeout| now.checked_sub_signed(timeout))
            .unwrap_or_default()
    }
}

/// The effects of one consumer on one order.
pub trait StoredEffects: Send + Sync {
    /// Compares the effect of an event with the expected effect. The consumer may have written the effect for another
    /// event of the same business fact. `record` is the consume-log record of the event, if there is one.
    fn compare(
        &self,
        event: &EventBody,
        order: &Order,
        record: Option<&Consumed>,
        points: PointsRules,
    ) -> Effect;

    /// Every row of the effects.
    fn rows(&self) -> Vec<EffectRow>;
}

/// Effects of a consumer that writes no rows of its own.
pub struct NoEffects;

impl StoredEffects for NoEffects {
    fn compare(&self, _: &EventBody, _: &Order, _: Option<&Consumed>, _: PointsRules) -> Effect {
        Effect::Invisible
    }

    fn rows(&self) -> Vec<EffectRow> {
        Vec::new()
    }
}

impl NoEffects {
    /// The effects of a consumer that writes no rows of its own, for each of these orders.
    pub fn of_orders(orders: &[Order]) -> Vec<Box<dyn StoredEffects>> {
        orders.iter().map(|_| Box::new(NoEffects) as Box<dyn StoredEffects>).collect()
    }
}

/// Effect of an event at one consumer, compared with the expected effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The consumer writes no rows for the event.
    Invisible,
    /// Number of effect rows that were found in `table`, and the expected number.
    Rows { table: &'static str, found: usize, expected: usize },
    /// The required asset operations that are missing.
    Operations { missing: Vec<OperationKey> },
}

impl Effect {
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            Effect::Invisible => false,
            Effect::Rows { found, expected, .. } => found < expected,
            Effect::Operations { missing } => !missing.is_empty(),
        }
    }

    /// Whether rows prove that the event took effect.
    pub(crate) fn is_present(&self) -> bool {
        match self {
            Effect::Invisible => false,
            Effect::Rows { found, expected, .. } => *expected > 0 && found >= expected,
            Effect::Operations { missing } => missing.is_empty(),
        }
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Effect::Invisible => f.write_str("no rows to compare"),
            Effect::Rows { table, found, expected } => {
                write!(f, "{table} has {found} rows, expected {expected}")
            }
            Effect::Operations { missing } => {
                f.write_str("asset operations are missing:")?;
                missing.iter().try_for_each(|key| write!(f, " {key}"))
            }
        }
    }
}

/// A recorded event whose effect is missing.
pub struct LostEffect<'a> {
    pub order: &'a Order,
    pub row: &'a OutboxRow,
    pub event: &'a EventBody,
    pub effect: &'a Effect,
    pub now: DateTime<Utc>,
}

/// An effect row and the business fact that it belongs to.
#[derive(Debug, Clone)]
pub struct EffectRow {
    pub table: &'static str,
    /// Natural key of the effect within the order.
    pub fact: String,
    pub event_id: Option<EventId>,
    pub at: DateTime<Utc>,
    pub condition: OrderCondition,
    pub description: RowDescription,
}

/// Description of an effect row in the timeline.
#[derive(Debug, Clone)]
pub enum RowDescription {
    Text(String),
    Operation(AssetOperation),
}

/// Condition that the order row must meet for an effect to be valid.
#[derive(Debug, Clone, Copy)]
pub enum OrderCondition {
    Exists,
    Paid,
    Shipped,
    /// The order was cancelled or refunded.
    Undone,
    Is(OrderStatus),
    CancelledFor(CancelReason),
    /// No order meets this condition. Used for a notification about a status for which consumers send none.
    Never,
}

impl OrderCondition {
    pub(crate) fn is_met_by(self, order: &Order) -> bool {
        match self {
            OrderCondition::Exists => true,
            OrderCondition::Paid => order.was_paid(),
            OrderCondition::Shipped => order.was_shipped(),
            OrderCondition::Undone => order.is_cancelled_or_refunded(),
            OrderCondition::Is(status) => order.status == status,
            OrderCondition::CancelledFor(reason) => {
                order.status == OrderStatus::Cancelled && order.cancel_reason == Some(reason)
            }
            OrderCondition::Never => false,
        }
    }
}

/// The consumers of a deployment, in the order of their queues. Clones share them.
#[derive(Clone)]
pub struct Consumers(Arc<[Arc<dyn Consumer>]>);

impl Consumers {
    pub fn new(consumers: impl IntoIterator<Item = Arc<dyn Consumer>>) -> Consumers {
        Consumers(consumers.into_iter().collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Consumer>> {
        self.0.iter()
    }

    pub fn named(&self, name: &str) -> Option<&Arc<dyn Consumer>> {
        self.iter().find(|consumer| consumer.name() == name)
    }

    /// Adds the queues of the consumers to a topology. Every queue except a delay queue has a consumer, because a queue
    /// without a consumer would grow without limit. A queue for a future consumer would be useless: a new consumer does
    /// not process events from before its subscription.
    pub fn add_queues(&self, topology: Topology, pending_timeout: Duration) -> Topology {
        self.iter().map(|consumer| consumer.queue(pending_timeout)).fold(topology, |topology, queue| {
            let topology = queue.delay.into_iter().fold(topology, Topology::with_queue);
            let added = topology.with(&queue.name, &queue.bindings);
            if queue.is_selective { added.selective(&queue.name) } else { added }
        })
    }

    /// The consumers with their queues, as the outbox runs them.
    pub fn subscribers(&self, context: &HandlerContext) -> Vec<Subscriber<Work>> {
        let subscriber = |consumer: &Arc<dyn Consumer>| {
            let handler = ConsumerHandler { consumer: Arc::clone(consumer), context: context.clone() };
            Subscriber::new(consumer.queue(context.pending_timeout).name, Arc::new(handler))
        };
        self.iter().map(subscriber).collect()
    }
}

/// A consumer with the context of its process.
struct ConsumerHandler {
    consumer: Arc<dyn Consumer>,
    context: HandlerContext,
}

#[async_trait]
impl Handler<Work> for ConsumerHandler {
    fn name(&self) -> &str {
        self.consumer.name()
    }

    fn event_types(&self) -> Vec<&str> {
        self.consumer.event_types()
    }

    fn delay(&self) -> Duration {
        self.consumer.queue(self.context.pending_timeout).delay()
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        self.consumer.apply(&self.context, unit, events).await
    }
}
