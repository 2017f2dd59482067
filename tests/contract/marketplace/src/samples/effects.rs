//! Effects of the marketplace's consumers.

use handover_contract::samples::{event_id, start};
use handover_events::TenantId;
use marketplace::ports::{
    CreditChange, ListingChange, ListingChangeKind, NewShipmentTask, Notification, OrderSide,
};
use marketplace_domain::{CreditOutcome, OrderStatus};

use super::{order_id, product_id, user};

/// A change of seller 20's listing in tenant 1.
pub fn listing_change(product: i64, order: i64, kind: ListingChangeKind, event: &str) -> ListingChange {
    ListingChange {
        tenant: TenantId::DEFAULT,
        seller: user(20),
        product: product_id(product),
        order: order_id(order),
        aggregate_seq: 1,
        kind,
        event_id: event_id(event),
        at: start(),
    }
}

/// A shipment task of tenant 1 from seller 20 to buyer 10.
pub fn shipment_task(order: i64, event: &str) -> NewShipmentTask {
    NewShipmentTask {
        tenant: TenantId::DEFAULT,
        order: order_id(order),
        seller: user(20),
        buyer: user(10),
        aggregate_seq: 2,
        event_id: event_id(event),
        at: start(),
    }
}

/// A notification of tenant 1 to this user as the buyer: the order was shipped.
pub fn notification(order: i64, recipient: i64, event: &str) -> Notification {
    Notification {
        tenant: TenantId::DEFAULT,
        recipient: user(recipient),
        side: OrderSide::Buyer,
        order: order_id(order),
        aggregate_seq: 3,
        old_status: OrderStatus::Paid,
        new_status: OrderStatus::Shipped,
        changed_at: start(),
        event_id: event_id(event),
        at: start(),
    }
}

/// A change of this buyer's credit in tenant 1.
pub fn credit_change(buyer: i64, order: i64, step: CreditOutcome, event: &str) -> CreditChange {
    CreditChange {
        tenant: TenantId::DEFAULT,
        buyer: user(buyer),
        order: order_id(order),
        aggregate_seq: 4,
        step,
        event_id: event_id(event),
        at: start(),
    }
}
