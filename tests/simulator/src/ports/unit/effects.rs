//! What consumers write: each effect may be what breaks its handler.

use handover_events::EventId;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::OrderId;

use super::{Faulty, passes_on};
use crate::faults::Fault;

passes_on! { impl EffectRepo for MarketUnit {
    fn change_listings(changes: &[ListingChange]) -> (),
        first |unit| () = unit.effects("inventory", changes.iter().map(|it| (it.order, &it.event_id))).await?;
    fn open_shipments(tasks: &[NewShipmentTask]) -> (),
        first |unit| () = unit.effects("fulfillment", tasks.iter().map(|it| (it.order, &it.event_id))).await?;
} }
passes_on! { impl NotificationRepo for MarketUnit {
    fn notify(notifications: &[Notification]) -> (),
        first |unit| () = unit.effects("status-sync", notifications.iter().map(|it| (it.order, &it.event_id))).await?;
} }
passes_on! { impl CreditRepo for MarketUnit {
    fn change_credit(changes: &[CreditChange]) -> (),
        first |unit| () = unit.effects("buyer-credit", changes.iter().map(|it| (it.order, &it.event_id))).await?;
} }

impl<I: ?Sized> Faulty<I> {
    /// What handlers run into when they write: a bug, bad data, a slow plan.
    pub(super) async fn effects<'a>(
        &mut self,
        consumer: &'static str,
        effects: impl Iterator<Item = (OrderId, &'a EventId)> + Send,
    ) -> Result<(), StoreError> {
        let faults = self.process.faults.clone();
        let effects: Vec<(OrderId, &EventId)> = effects.collect();
        let poisoned = consumer == "inventory" && effects.iter().any(|(order, _)| order.get() % 4 == 0);
        if (poisoned && faults.is_poisoned()) || faults.strikes(Fault::Fails) {
            self.failed = true;
            return Err(StoreError::Backend("value out of range".into()));
        }
        if faults.strikes(Fault::TooSlow) {
            faults.sleep(faults.dice.millis(4_000..7_000)).await;
        }
        self.wrote.effects.extend(effects.into_iter().map(|(_, event)| (consumer, event.clone())));
        Ok(())
    }
}
