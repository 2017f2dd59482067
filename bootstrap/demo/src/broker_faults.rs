//! Plan and record of the message faults that the wrapped broker injects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use handover_events::EventId;
use handover_outbox::ports::{BrokerError, Clock};
use handover_system::SystemClock;
use marketplace::consumers::FULFILLMENT_QUEUE;
use tokio::sync::watch;

/// Every n-th delivery is duplicated.
const DUPLICATE_EVERY: u64 = 10;

/// Planned and recorded faults. Clones share the state.
#[derive(Clone, Default)]
pub(super) struct BrokerFaults(Arc<Shared>);

#[derive(Default)]
struct Shared {
    connection: watch::Sender<Connection>,
    state: Mutex<FaultState>,
}

/// State of the connection to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Connection {
    is_down: bool,
    /// Number of outages so far: a connection made before the last outage stays lost.
    outages: u32,
}

#[derive(Default)]
struct FaultState {
    deliveries: u64,
    message_counts: CountsByQueueAndEvent,
    corruption: CorruptionPlan,
    outage: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

pub(super) type CountsByQueueAndEvent = BTreeMap<(String, EventId), MessageCounts>;

/// Counts of the messages of one event in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MessageCounts {
    /// Messages delivered to the consumer with the body that was published.
    pub(super) intact: u64,
    /// Copies that the demo added to the queue.
    pub(super) copies: u64,
    pub(super) acked: u64,
}

/// Handling of a message by the wrapped broker, before the message reaches a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryAction {
    Deliver,
    /// Deliver the message and publish a copy to the same queue.
    Duplicate,
    /// Replace the message with one that has this body.
    Corrupt(String),
    /// Acknowledge the message without delivering it, because the corrupted message replaces every message of this
    /// event.
    Drop,
}

/// Plan of the one message to corrupt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum CorruptionPlan {
    #[default]
    Never,
    /// Corrupt the message of one event for fulfillment, after this number of other events.
    After(u64),
    /// The message to corrupt is chosen; `body` is the corrupted body.
    Chosen { corrupted: CorruptedMessage, body: String, is_done: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CorruptedMessage {
    pub(super) queue: String,
    pub(super) event: EventId,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct InjectedFaults {
    pub(super) message_counts: CountsByQueueAndEvent,
    pub(super) corrupted: Option<CorruptedMessage>,
    /// Begin and end of the outage.
    pub(super) outage: Option<(DateTime<Utc>, DateTime<Utc>)>,
}

impl BrokerFaults {
    /// Plans to corrupt the message of the `number`-th event (from 1) that is delivered to fulfillment.
    pub(super) fn corrupt_nth_payment(&self, number: u64) {
        self.state().corruption = CorruptionPlan::After(number.saturating_sub(1));
    }

    /// Begins the outage: the broker is unreachable and every connection to it is lost.
    pub(super) fn begin_outage(&self) {
        self.0.connection.send_modify(|connection| {
            *connection = Connection { is_down: true, outages: connection.outages + 1 }
        });
        let now = SystemClock.now();
        self.state().outage = Some((now, now));
    }

    pub(super) fn end_outage(&self) {
        self.0.connection.send_modify(|connection| connection.is_down = false);
        if let Some((_, until)) = &mut self.state().outage {
            *until = SystemClock.now();
        }
    }

    pub(super) fn injected(&self) -> InjectedFaults {
        let state = self.state();
        InjectedFaults {
            message_counts: state.message_counts.clone(),
            corrupted: match &state.corruption {
                CorruptionPlan::Chosen { corrupted, is_done: true, .. } => Some(corrupted.clone()),
                CorruptionPlan::Never
                | CorruptionPlan::After(_)
                | CorruptionPlan::Chosen { is_done: false, .. } => None,
            },
            outage: state.outage,
        }
    }

    /// Returns the connection, or `Unreachable` during the outage.
    pub(super) fn connect(&self) -> Result<Connection, BrokerError> {
        let connection = *self.0.connection.borrow();
        if connection.is_down { Err(unreachable()) } else { Ok(connection) }
    }

    /// Fails with `Unreachable` if the connection has been lost since it was made.
    pub(super) fn check(&self, connection: Connection) -> Result<(), BrokerError> {
        if *self.0.connection.borrow() == connection { Ok(()) } else { Err(unreachable()) }
    }

    pub(super) async fn wait_until_lost(&self, connection: Connection) {
        let mut now = self.0.connection.subscribe();
        // `wait_for` fails only if the sender of connection states was dropped; the connection is then lost as well.
        let _ = now.wait_for(|now| *now != connection).await;
    }

    /// Decides what to do with a message delivered from `queue`. Only the first message of an event in the queue of the
    /// consumer `fulfillment` can be chosen for corruption, so that the consumer has not received the uncorrupted
    /// message of that event. Messages of the chosen event in that queue are never duplicated.
    pub(super) fn next_action(&self, queue: &str, event: &EventId, body: &str) -> DeliveryAction {
        let mut state = self.state();
        let key = (queue.to_owned(), event.clone());
        let is_new = !state.message_counts.contains_key(&key);
        state.message_counts.entry(key).or_default();
        match &mut state.corruption {
            CorruptionPlan::Chosen { corrupted, body: corrupted_body, is_done }
                if corrupted.is_at(queue, event) =>
            {
                return match (body == corrupted_body, *is_done) {
                    (true, _) => DeliveryAction::Deliver,
                    (false, true) => DeliveryAction::Drop,
                    // The broker has not confirmed the corrupted message yet.
                    (false, false) => DeliveryAction::Corrupt(corrupted_body.clone()),
                };
            }
            corruption @ CorruptionPlan::After(0) if is_new && queue == FULFILLMENT_QUEUE => {
                let corrupted_body: String = body.chars().take(body.chars().count() / 2).collect();
                let corrupted = CorruptedMessage { queue: queue.to_owned(), event: event.clone() };
                *corruption =
                    CorruptionPlan::Chosen { corrupted, body: corrupted_body.clone(), is_done: false };
                return DeliveryAction::Corrupt(corrupted_body);
            }
            CorruptionPlan::After(others) if is_new && queue == FULFILLMENT_QUEUE => *others -= 1,
            CorruptionPlan::Never | CorruptionPlan::After(_) | CorruptionPlan::Chosen { .. } => {}
        }
        state.deliveries += 1;
        if state.deliveries.is_multiple_of(DUPLICATE_EVERY) {
            DeliveryAction::Duplicate
        } else {
            DeliveryAction::Deliver
        }
    }

    /// Records that the corrupted message is in its queue.
    pub(super) fn record_corruption(&self) {
        if let CorruptionPlan::Chosen { is_done, .. } = &mut self.state().corruption {
            *is_done = true;
        }
    }

    /// Records that a copy of the message of `event` was added to `queue`.
    pub(super) fn record_duplicate(&self, queue: &str, event: &EventId) {
        self.state().counts(queue, event).copies += 1;
    }

    /// Records a delivery to the consumer of `queue`. The corrupted message is not counted.
    pub(super) fn record_delivery(&self, queue: &str, event: &EventId, body: &str) {
        let mut state = self.state();
        let is_corrupted = matches!(&state.corruption,
            CorruptionPlan::Chosen { corrupted, body: corrupted_body, .. } if corrupted.is_at(queue, event)
                && body == corrupted_body);
        if !is_corrupted {
            state.counts(queue, event).intact += 1;
        }
    }

    pub(super) fn record_acks(&self, queue: &str, events: &[EventId]) {
        let mut state = self.state();
        events.iter().for_each(|event| state.counts(queue, event).acked += 1);
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultState {
    fn counts(&mut self, queue: &str, event: &EventId) -> &mut MessageCounts {
        self.message_counts.entry((queue.to_owned(), event.clone())).or_default()
    }
}

impl CorruptedMessage {
    fn is_at(&self, queue: &str, event: &EventId) -> bool {
        self.queue == queue && self.event == *event
    }
}

fn unreachable() -> BrokerError {
    BrokerError::Unreachable("broker connection lost (outage injected by the demo)".into())
}
