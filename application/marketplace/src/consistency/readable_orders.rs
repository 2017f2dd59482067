//! Reads orders of which one may have an unreadable value.

use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use marketplace_domain::{Order, OrderId};

use crate::ports::MarketView;

/// Orders, and the errors of those that cannot be read.
#[derive(Default)]
pub(crate) struct ReadableOrders {
    pub(crate) orders: Vec<Order>,
    pub(crate) unreadable: Vec<(OrderId, StoreError)>,
}

impl ReadableOrders {
    /// Reads the orders with these ids. If one of them cannot be read, reads them one by one.
    pub(crate) async fn read(
        view: &mut dyn MarketView,
        tenant: TenantId,
        ids: &[OrderId],
    ) -> Result<ReadableOrders, StoreError> {
        match view.orders_by_id(Some(tenant), ids).await {
            Ok(orders) => return Ok(ReadableOrders { orders, unreadable: Vec::new() }),
            Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut read = ReadableOrders::default();
        for id in ids {
            match view.order_by_id(tenant, *id).await {
                Ok(order) => read.orders.extend(order),
                Err(error @ StoreError::Corrupt { .. }) => read.unreadable.push((*id, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }
}
