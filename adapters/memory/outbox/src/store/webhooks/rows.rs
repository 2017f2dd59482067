//! Rows of webhooks and their indexes.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::EventId;
use handover_outbox::ports::{DeliveryState, EndpointId, WebhookDelivery};

use super::super::outbox_tables::{OutboxRows as _, OutboxTables, Statement};
use super::super::rows::{AttemptRow, EndpointRow};
use super::super::tables::Row;

impl Row<OutboxTables> for EndpointRow {
    type Key = EndpointId;
    type Index = ();

    fn key(&self) -> EndpointId {
        self.endpoint.id
    }
}

impl Row<OutboxTables> for AttemptRow {
    type Key = i64;
    type Index = ();

    fn key(&self) -> i64 {
        self.id
    }
}

/// Ids of deliveries.
#[derive(Default)]
pub(in super::super) struct DeliveryIndex {
    pub(super) by_endpoint: BTreeMap<EndpointId, BTreeSet<i64>>,
    pub(super) by_event: BTreeMap<EventId, BTreeSet<i64>>,
    pub(super) pending: BTreeMap<EndpointId, BTreeSet<i64>>,
}

impl Row<OutboxTables> for WebhookDelivery {
    type Key = i64;
    type Index = DeliveryIndex;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut DeliveryIndex) {
        index.by_endpoint.entry(self.endpoint).or_default().insert(self.id);
        index.by_event.entry(self.event_id.clone()).or_default().insert(self.id);
        if self.state == DeliveryState::Pending {
            index.pending.entry(self.endpoint).or_default().insert(self.id);
        }
    }

    fn leave(&self, index: &mut DeliveryIndex) {
        if let Some(pending) = index.pending.get_mut(&self.endpoint) {
            pending.remove(&self.id);
        }
    }
}

/// The deliveries of an endpoint, in the order of their ids.
pub(super) fn of_endpoint<'s>(
    statement: &'s Statement<'_>,
    endpoint: EndpointId,
) -> impl Iterator<Item = &'s WebhookDelivery> {
    statement.webhook_deliveries().select(move |table| {
        let ids = table.index.by_endpoint.get(&endpoint).into_iter().flatten();
        ids.filter_map(|id| Some((*id, table.get(id)?)))
    })
}

/// The deliveries of an event, in the order of their ids.
pub(in super::super) fn of_event<'s>(
    statement: &'s Statement<'_>,
    event: &EventId,
) -> impl Iterator<Item = &'s WebhookDelivery> {
    statement.webhook_deliveries().select(move |table| {
        let ids = table.index.by_event.get(event).into_iter().flatten();
        ids.filter_map(|id| Some((*id, table.get(id)?)))
    })
}

/// The pending deliveries of an endpoint, in the order of their ids.
pub(super) fn pending<'s>(
    statement: &'s Statement<'_>,
    endpoint: EndpointId,
) -> impl Iterator<Item = &'s WebhookDelivery> {
    statement.webhook_deliveries().select(move |table| {
        let ids = table.index.pending.get(&endpoint).into_iter().flatten();
        ids.filter_map(|id| Some((*id, table.get(id)?)))
    })
}
