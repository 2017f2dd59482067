//! Effects of consumers; each write may make the handler fail.

use handover_events::EventId;
use handover_outbox::ports::StoreError;
use marketplace::ports::{
    CreditChange, CreditRepoWrapper, EffectRepoWrapper, ListingChange, NewShipmentTask, Notification,
    NotificationRepoWrapper,
};
use marketplace_domain::OrderId;

use super::super::{Faulty, Unit};
use crate::fault_kinds::Fault;

impl EffectRepoWrapper for Unit {
    async fn change_listings(&mut self, changes: &[ListingChange]) -> Result<(), StoreError> {
        self.effects("inventory", changes.iter().map(|it| (it.order, &it.event_id))).await?;
        self.inner.change_listings(changes).await
    }

    async fn open_shipments(&mut self, tasks: &[NewShipmentTask]) -> Result<(), StoreError> {
        self.effects("fulfillment", tasks.iter().map(|it| (it.order, &it.event_id))).await?;
        self.inner.open_shipments(tasks).await
    }
}

impl NotificationRepoWrapper for Unit {
    async fn notify(&mut self, notifications: &[Notification]) -> Result<(), StoreError> {
        // The notification of a decline is written with it, not by the consumer.
        let of_consumer: Vec<&Notification> =
            notifications.iter().filter(|it| !it.new_status.frees_product()).collect();
        if !of_consumer.is_empty() {
            self.effects("status-sync", of_consumer.iter().map(|it| (it.order, &it.event_id))).await?;
        }
        self.inner.notify(notifications).await
    }
}

impl CreditRepoWrapper for Unit {
    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError> {
        self.effects("buyer-credit", changes.iter().map(|it| (it.order, &it.event_id))).await?;
        self.inner.change_credit(changes).await
    }
}

impl<I: ?Sized> Faulty<I> {
    /// Injects failures of handlers: a bug, invalid data, a slow query.
    pub(super) async fn effects<'a>(
        &mut self,
        consumer: &'static str,
        effects: impl Iterator<Item = (OrderId, &'a EventId)> + Send,
    ) -> Result<(), StoreError> {
        let faults = self.process.faults.clone();
        let effects: Vec<(OrderId, &EventId)> = effects.collect();
        let poisoned = consumer == "inventory" && effects.iter().any(|(order, _)| order.get() % 4 == 0);
        if (poisoned && faults.is_poisoned()) || faults.occurs(Fault::Fails) {
            self.failed = true;
            return Err(StoreError::Backend("value out of range".into()));
        }
        if faults.occurs(Fault::TooSlow) {
            faults.sleep(faults.random.millis(4_000..7_000)).await;
        }
        self.writes.effects.extend(effects.into_iter().map(|(_, event)| (consumer, event.clone())));
        Ok(())
    }
}
