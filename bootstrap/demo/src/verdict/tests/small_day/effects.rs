//! Effects of the small day's events, except those on assets.

use handover_events::TenantId;
use handover_outbox::ports::OutboxRow;
use marketplace::ports::{
    BuyerCredit, CreditChange, ListingChange, ListingChangeKind, NewShipmentTask, Notification, OrderSide,
};
use marketplace_domain::{CreditOutcome, EventBody, OrderId, UserId};

use super::SmallDay;

impl SmallDay {
    pub(super) fn apply(&mut self, row: &OutboxRow, event: &EventBody, number: i64) {
        let (tenant, order): (_, OrderId) = (TenantId::DEFAULT, number.try_into().unwrap());
        let (seller, buyer): (UserId, UserId) = (100.try_into().unwrap(), number.try_into().unwrap());
        let (aggregate_seq, event_id, at) = (row.aggregate_seq, row.event_id.clone(), self.now);
        let listing = |kind| ListingChange {
            tenant,
            seller,
            product: number.try_into().unwrap(),
            order,
            aggregate_seq,
            kind,
            event_id: event_id.clone(),
            at,
        };
        match event {
            EventBody::OrderCreated(_) => {
                self.database.listing_changes.push(listing(ListingChangeKind::Occupied))
            }
            EventBody::OrderPaid(_) => {
                let event_id = event_id.clone();
                let task = NewShipmentTask { tenant, order, seller, buyer, aggregate_seq, event_id, at };
                self.database.shipments.push(task);
            }
            EventBody::OrderStatusChanged(body) => {
                for (side, recipient) in [(OrderSide::Buyer, buyer), (OrderSide::Seller, seller)] {
                    self.database.notifications.push(Notification {
                        tenant,
                        recipient,
                        side,
                        order,
                        aggregate_seq,
                        old_status: body.old_status,
                        new_status: body.new_status,
                        changed_at: body.changed_at,
                        event_id: event_id.clone(),
                        at,
                    });
                }
                if body.new_status.as_str() == "completed" {
                    self.count(row, CreditOutcome::Completed, buyer);
                }
            }
            EventBody::OrderCancelled(body) => {
                self.database.listing_changes.push(listing(ListingChangeKind::Released));
                if let Some(step) = CreditOutcome::of_cancellation(body.reason) {
                    self.count(row, step, buyer);
                }
            }
            EventBody::OrderRefunded(_) => {
                self.database.listing_changes.push(listing(ListingChangeKind::Released));
            }
            _ => {}
        }
    }

    fn count(&mut self, row: &OutboxRow, step: CreditOutcome, buyer: UserId) {
        self.database.credit_changes.push(CreditChange {
            tenant: TenantId::DEFAULT,
            buyer,
            order: buyer.get().try_into().unwrap(),
            aggregate_seq: row.aggregate_seq,
            step,
            event_id: row.event_id.clone(),
            at: self.now,
        });
        let before = self.database.credit.get(&buyer).map(|credit| credit.counts).unwrap_or_default();
        let counts = before.and(step);
        let (last_event_id, update_time) = (row.event_id.clone(), self.now);
        let credit = BuyerCredit { counts, score: counts.score(), last_event_id, update_time };
        self.database.credit.insert(buyer, credit);
    }
}
