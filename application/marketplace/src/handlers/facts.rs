//! Business facts: an order makes each transition once, so each transition has each effect once, whatever event announces
//! it (004 Q5: a missing event may be inserted by hand under a new id).
//!
//! **Invariant:** no handler acts on what an event says alone: the order's row has to confirm it.

use std::collections::BTreeMap;

use handover_events::{EnvelopeError, EventId, TenantId};
use marketplace_domain::{AggregateType, EventBody, Order, OrderId};

use crate::mutants::{Mutant, planted};
use crate::ports::{EffectKind, Work};
use handover_outbox::consumers::{ALREADY_APPLIED, Applied, Event, HandlerError};

/// What an event says. Of a type that is not the marketplace's, or without the fields of its type, it is unrecoverable.
pub(super) fn body_of(event: &Event) -> Result<EventBody, HandlerError> {
    EventBody::of(&event.envelope).map_err(|error| {
        if matches!(error, EnvelopeError::UnknownType { .. }) {
            untaken(event)
        } else {
            HandlerError::Unrecoverable(error.to_string())
        }
    })
}

/// An event that its handler does not take: a mistake of the wiring or a stray message.
pub(super) fn untaken(event: &Event) -> HandlerError {
    HandlerError::Unrecoverable(format!(
        "{}: {}",
        handover_outbox::texts::UNSUPPORTED_TYPE,
        event.row.event_type
    ))
}

/// Whether it is about an order, and not about a payment or a refund.
pub(super) fn is_about_order(event: &Event) -> bool {
    event.row.aggregate.kind == AggregateType::Order.as_str()
}

/// Without effect: an earlier event of this fact of the order had it.
pub(super) fn applied_before(order: &Order, fact: &str) -> Applied {
    Applied {
        result: Some(ALREADY_APPLIED.to_owned()),
        idempotency_key: Some(format!("order:{}:{fact}", order.id)),
        is_repeated: true,
    }
}

/// Without effect: the order has moved on, and the effect would hold no more.
pub(super) fn stale(order: &Order) -> Applied {
    Applied::result(format!("stale: the order is {}", order.status))
}

/// The orders that events are about, as their rows are now.
pub(super) struct Orders(BTreeMap<(TenantId, OrderId), Order>);

impl Orders {
    pub(super) async fn read(unit: &mut Work, events: &[Event]) -> Result<Orders, HandlerError> {
        let mut orders = BTreeMap::new();
        for (tenant, ids) in by_tenant(events) {
            for order in unit.orders_by_id(tenant, &ids).await? {
                orders.insert((tenant, order.id), order);
            }
        }
        Ok(Orders(orders))
    }

    /// The order of an event, if its row confirms the event. Unrecoverable if the order does not exist (000 §9.3) or
    /// contradicts the event: neither changes by another attempt.
    pub(super) fn confirming(&self, event: &Event, body: &EventBody) -> Result<&Order, HandlerError> {
        let (said, row) = (body.aggregate_id(), event.row.aggregate.id);
        if said != row {
            let why = format!("the payload is about order {said}, its outbox row about order {row}");
            return Err(HandlerError::Unrecoverable(why));
        }
        let order = OrderId::try_from(row).ok().and_then(|id| self.0.get(&(event.row.aggregate.tenant, id)));
        let order =
            order.ok_or_else(|| HandlerError::Unrecoverable(format!("order {row} does not exist")))?;
        match order.confirms(body) {
            Ok(()) => Ok(order),
            Err(_) if planted(Mutant::ContradictionApplied) => Ok(order),
            Err(contradiction) => Err(HandlerError::Unrecoverable(contradiction.to_string())),
        }
    }
}

/// The facts that have one kind of effect already, each with the event that caused it.
pub(super) struct Facts {
    events: BTreeMap<(TenantId, OrderId, String), EventId>,
}

/// Whether a fact has its effect already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactState {
    /// It has none.
    New,
    /// It has it by another event.
    ByOther,
    /// It has it by this event.
    ByThis,
}

impl Facts {
    pub(super) async fn read(
        unit: &mut Work,
        kind: EffectKind,
        events: &[Event],
    ) -> Result<Facts, HandlerError> {
        let mut found = BTreeMap::new();
        for (tenant, ids) in by_tenant(events) {
            for effect in unit.effects_of(kind, tenant, &ids).await? {
                found.insert((tenant, effect.order, effect.fact), effect.event_id);
            }
        }
        Ok(Facts { events: found })
    }

    /// Whether a fact has its effect already; from now on it has it, by this event if by no other.
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

    /// The result of an event whose fact has its effect already; `None` for the first event of a fact.
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

/// The effect of an event exists although its consume-log record is not SUCCESS: deduplication failed. The event becomes a
/// dead letter, so that a person sees it.
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
        if let Ok(id) = OrderId::try_from(event.row.aggregate.id) {
            ids.entry(event.row.aggregate.tenant).or_default().push(id);
        }
    }
    for ids in ids.values_mut() {
        ids.sort_unstable();
        ids.dedup();
    }
    ids
}
