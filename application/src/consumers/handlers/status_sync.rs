//! status-sync: buyer and seller are told that their order has another status (000 §11).

use async_trait::async_trait;
use handover_domain::{EventBody, EventType};

use crate::App;
use crate::consumers::{Applied, Event, Handler, HandlerError, untaken};
use crate::mutants::{Mutant, planted};
use crate::ports::{Notification, OrderSide, UnitOfWork};

/// Writes notifications: two per event.
///
/// Late events: a notification is a row of its own, changes no other, and says when its change happened. So a late one
/// leaves the same rows as one in time, and whoever reads them is not misled about what came first.
pub struct StatusSync {
    app: App,
}

impl StatusSync {
    /// On this application's clock.
    pub fn new(app: App) -> StatusSync {
        StatusSync { app }
    }
}

#[async_trait]
impl Handler for StatusSync {
    fn name(&self) -> &'static str {
        "status-sync"
    }

    fn takes(&self) -> &'static [&'static str] {
        const { &[EventType::OrderStatusChanged.as_str()] }
    }

    async fn apply(&self, unit: &mut dyn UnitOfWork, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let at = self.app.now();
        let mut notifications = Vec::with_capacity(events.len() * 2);
        for event in events {
            let EventBody::OrderStatusChanged(change) = event.body()? else { return Err(untaken(event)) };
            let mut parties =
                [(OrderSide::Buyer, change.order.buyer_id), (OrderSide::Seller, change.order.seller_id)];
            if planted(Mutant::WrongPartyNotified) {
                parties = [(OrderSide::Buyer, parties[1].1), (OrderSide::Seller, parties[0].1)];
            }
            notifications.extend(parties.map(|(side, recipient)| Notification {
                tenant: event.row.aggregate.tenant,
                recipient,
                side,
                order: change.order.order_id,
                aggregate_seq: event.row.aggregate_seq,
                old_status: change.old_status,
                new_status: change.new_status,
                changed_at: change.changed_at,
                event_id: event.row.event_id.clone(),
                at,
            }));
        }
        unit.notify(&notifications).await?;
        Ok(events.iter().map(|_| Applied::result("buyer and seller notified")).collect())
    }
}
