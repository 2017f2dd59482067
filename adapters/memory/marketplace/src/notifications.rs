//! Notifications to buyers and sellers.

use std::cmp::Reverse;

use async_trait::async_trait;
use handover_events::{EventId, TenantId};
use handover_memory::store::limited;
use handover_memory::store::statement::next;
use handover_memory::store::tables::rows_below;
use handover_outbox::ports::{Numbered, StoreError};
use marketplace::ports::{
    EffectKind, Notification, NotificationQueries, NotificationRepo, notification_fact,
};
use marketplace_domain::{OrderId, UserId};

use super::effects::{OfOrder, check_key, effects_of, keys_of};
use crate::tables::MarketRows as _;
use crate::unit::MarketUnit;

impl OfOrder for Notification {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }

    fn fact(&self) -> String {
        notification_fact(self.new_status, self.side)
    }

    fn event(&self) -> &EventId {
        &self.event_id
    }
}

#[async_trait]
impl NotificationQueries for MarketUnit {
    async fn notifications_about(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Notification>, StoreError> {
        self.read(|statement| effects_of(statement.notifications(), (tenant, orders), Notification::clone))
            .await
    }

    async fn notifications_page(
        &mut self,
        tenant: TenantId,
        recipient: UserId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<Notification>>, StoreError> {
        self.read(|statement| {
            let rows = statement.notifications();
            let newest_first =
                rows.select(|table| rows_below(table, before).map(|(id, row)| (Reverse(id), row)));
            let own =
                newest_first.filter(|row| (row.effect.tenant, row.effect.recipient) == (tenant, recipient));
            own.take(limited(limit)).cloned().collect()
        })
        .await
    }
}

#[async_trait]
impl NotificationRepo for MarketUnit {
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError> {
        self.write(keys_of(EffectKind::Notification, notifications), |statement| {
            for notification in notifications {
                check_key(statement.notifications(), notification)?;
                let id = next(&mut statement.sequences.effects);
                statement.own.notifications.put(Numbered { id, effect: notification.clone() });
            }
            Ok(())
        })
        .await
    }
}
