//! Business facts. A fact is a transition of an order, such as "paid". An order makes each transition once, so each effect
//! of a fact is applied once, even if several events announce the fact (a missing event may be inserted manually
//! with a new id).
//!
//! **Invariant:** a handler that uses `Orders` applies an event of an order only if the order row confirms it.

use std::collections::BTreeMap;

use handover_events::{EnvelopeError, EventId, TenantId};
use marketplace_domain::{AggregateType, EventBody, Order, OrderId};

use crate::ports::{EffectKind, Work};
use handover_outbox::consumers::{ALREADY_APPLIED, Applied, Event, HandlerError};

/// Parses the payload of an event. An unknown event type or an invalid payload is unrecoverable.
pub(super) fn body_of(event: &Event) -> Result<EventBody, HandlerError> {
    EventBody::of(&event.envelope).map_err(|error| {
        if matches!(error, EnvelopeError::UnknownType { .. }) {
            unsupported(event)
        } else {
            HandlerError::Unrecoverable(error.to_string())
        }
    })
}

/// Error for an event type that the handler does not support, because of a wrong binding or a misrouted message.
pub(super) fn unsupported(event: &Event) -> HandlerError {
    HandlerError::Unrecoverable(format!("{}: {}", crate::texts::UNSUPPORTED_TYPE, event.row.event_type))
}

/// Whether the aggregate of the event is an order, not a payment or a refund.
pub(super) fn is_about_order(event: &Event) -> bool {
    event.row.aggregate.kind == AggregateType::Order.as_str()
}

/// Result of an event whose effect was caused by another event of the same fact.
pub(super) fn applied_before(order: &Order, fact: &str) -> Applied {
    Applied::result(ALREADY_APPLIED).with_key(format!("order:{}:{fact}", order.id)).repeated()
}

/// Result of an event that is skipped because the current status of the order makes its effect obsolete.
pub(super) fn stale(order: &Order) -> Applied {
    Applied::result(format!("stale: the order is {}", order.status))
}

/// The current order rows for a batch of events.
pub(super) struct Orders(BTreeMap<(TenantId, OrderId), Order>);

impl Orders {
    pub(super) async fn read(unit: &mut Work, events: &[Event]) -> Result<Orders, HandlerError> {
        let mut orders = BTreeMap::new();
        for (tenant, ids) in by_tenant(events) {
            for order in unit.orders_by_id(Some(tenant), &ids).await? {
                orders.insert((tenant, order.id), order);
            }
        }
        Ok(Orders(orders))
    }

    /// Returns the order of an event if the order row confirms the event. The event is unrecoverable if the payload
    /// names another order, the order does not exist, or the order contradicts the event: a retry cannot
    /// change that.
    pub(super) fn confirming(&self, event: &Event, body: &EventBody) -> Result<&Order, HandlerError> {
        let payload_id = body.aggregate_id();
        let row_id = &event.row.aggregate.id;
        if *row_id != payload_id {
            let why =
                format!("the payload names order {payload_id}, but the outbox row belongs to order {row_id}");
            return Err(HandlerError::Unrecoverable(why));
        }
        let order =
            OrderId::try_from(row_id).ok().and_then(|id| self.0.get(&(event.row.aggregate.tenant, id)));
        let order =
            order.ok_or_else(|| HandlerError::Unrecoverable(format!("order {row_id} does not exist")))?;
        match order.confirms(body) {
            Ok(()) => Ok(order),
            Err(contradiction) => Err(HandlerError::Unrecoverable(contradiction.to_string())),
        }
    }
}

/// Business facts whose effect of one kind exists, each with the event that caused this effect. In a unit of work that defers
/// its writes, they are not read: the effects MUST have a unique key of their facts, and a conflict repeats the unit of work, which
/// then reads them.
pub(super) struct Facts {
    events: BTreeMap<(TenantId, OrderId, String), EventId>,
}

/// Whether a fact already has its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactState {
    /// The fact has no effect yet.
    New,
    /// The effect exists; an event other than the handled one caused it.
    ByOther,
    /// The effect exists; the handled event itself caused it.
    ByThis,
}

impl Facts {
    pub(super) async fn read(
        unit: &mut Work,
        kind: EffectKind,
        events: &[Event],
    ) -> Result<Facts, HandlerError> {
        let mut found = BTreeMap::new();
        if unit.defers_writes() {
            return Ok(Facts { events: found });
        }
        for (tenant, ids) in by_tenant(events) {
            for effect in unit.effects_of(kind, tenant, &ids).await? {
                found.insert((tenant, effect.order, effect.fact), effect.event_id);
            }
        }
        Ok(Facts { events: found })
    }

    /// Returns whether a fact already has its effect. If not, registers this event as the one that causes the effect.
    pub(super) fn claim(&mut self, event: &Event, order: &Order, fact: &str) -> FactState {
        let key = (order.tenant, order.id, fact.to_owned());
        match self.events.get(&key) {
            None => {
                self.events.insert(key, event.row.event_id.clone());
                FactState::New
            }
            Some(by) if *by == event.row.event_id => FactState::ByThis,
            Some(_) => FactState::ByOther,
        }
    }

    /// Returns the result of an event whose fact already has its effect; `None` for the first event of a fact.
    pub(super) fn repeated(
        &mut self,
        event: &Event,
        order: &Order,
        fact: &str,
    ) -> Result<Option<Applied>, HandlerError> {
        match self.claim(event, order, fact) {
            FactState::New => Ok(None),
            FactState::ByOther => Ok(Some(applied_before(order, fact))),
            FactState::ByThis => Err(applied_twice(event)),
        }
    }
}

/// Error for an event whose effect exists although its consume-log record is missing or not SUCCESS: deduplication
/// failed. The event becomes a dead letter, so that an operator sees it.
pub(super) fn applied_twice(event: &Event) -> HandlerError {
    HandlerError::Unrecoverable(format!(
        "event {} has taken effect before, but its consume-log record was missing or was not SUCCESS; nothing was done \
         again",
        event.row.event_id
    ))
}

fn by_tenant(events: &[Event]) -> BTreeMap<TenantId, Vec<OrderId>> {
    let mut ids: BTreeMap<TenantId, Vec<OrderId>> = BTreeMap::new();
    for event in events.iter().filter(|event| is_about_order(event)) {
        if let Ok(id) = OrderId::try_from(&event.row.aggregate.id) {
            ids.entry(event.row.aggregate.tenant).or_default().push(id);
        }
    }
    for ids in ids.values_mut() {
        ids.sort_unstable();
        ids.dedup();
    }
    ids
}
