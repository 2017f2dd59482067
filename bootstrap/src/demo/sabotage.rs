//! Breaks one promise on purpose, in the rows, so that a test can see the verdict notice.
//!
//! Whatever an effect or a row could suffer from a bug is done here through the ports the service itself writes by.

mod assets;

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use handover_application::ports::{
    Changed, ConsumeQueries, Consumption, DeadLetter, DeadLetterStatus, EffectQueries, Expected,
    Notification, OrderQueries, OrderSide, OutboxFilter, OutboxQueries, OutboxRow, ProductQueries, Redrive,
    StoreError, UnitOfWork,
};
use handover_application::topology::FULFILLMENT_QUEUE;
use handover_application::{App, BoxFuture, with_tx};
use handover_domain::{
    ConsumeStatus, EventBody, EventType, HoldStatus, MAX_ID, Order, OrderId, OrderStatus, ProductAction,
    TenantId, UserId,
};

use crate::cli::Break;
use assets::Owed;

const TENANT: TenantId = TenantId::DEFAULT;
/// Rows looked through for one to break.
const LOOKED_THROUGH: u32 = 1_000;

/// Why nothing could be broken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Spared {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The day holds nothing of the kind.
    #[error("the day holds nothing that --break could break this way: plan more orders, or another seed")]
    Nothing,
}

impl handover_application::UnitError for Spared {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Spared::Store(error) => Some(error),
            Spared::Nothing => None,
        }
    }
}

/// When a promise is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// While the broker is away since then: no consumer has seen what was committed meanwhile.
    Outage(DateTime<Utc>),
    /// When everything is settled.
    End,
}

/// Breaks it, if this is its moment.
pub(super) async fn strike(app: &App, which: Option<Break>, moment: Moment) -> Result<(), Spared> {
    let Some(which) = which else { return Ok(()) };
    let job = Arc::new(Job { app: app.clone(), now: app.now() });
    with_tx(&app.tx, move |unit, _| {
        let job = Arc::clone(&job);
        Box::pin(async move { job.strike(unit, which, moment).await })
    })
    .await
}

struct Job {
    app: App,
    now: DateTime<Utc>,
}

impl Job {
    fn strike<'a>(
        &'a self,
        unit: &'a mut dyn UnitOfWork,
        which: Break,
        moment: Moment,
    ) -> BoxFuture<'a, Result<(), Spared>> {
        Box::pin(async move {
            match (which, moment) {
                (Break::LoseEffect, Moment::Outage(since)) => self.lose_effect(unit, since).await,
                (Break::Reorder, Moment::Outage(since)) => self.reorder(unit, since).await,
                (Break::DoubleEffect, Moment::End) => self.double_effect(unit).await,
                (Break::LoseEvent, Moment::End) => self.lose_event(unit).await,
                (Break::Unconfirm, Moment::End) => self.unconfirm(unit).await,
                (Break::FreeProduct, Moment::End) => self.free_product(unit).await,
                (Break::SecondBuyer, Moment::End) => self.second_buyer(unit).await,
                (Break::OpenLetter, Moment::End) => self.open_letter(unit).await,
                (Break::SpendAttempt, Moment::End) => self.spend_attempt(unit).await,
                (Break::Unbalance, Moment::End) => assets::unbalance(unit).await,
                (Break::DriftBalance, Moment::End) => self.drift_balance(unit).await,
                (Break::LeaveHold, Moment::End) => self.end_hold(unit, HoldStatus::Frozen).await,
                (Break::ReleaseHold, Moment::End) => self.end_hold(unit, HoldStatus::Released).await,
                (Break::ReuseCoupon, Moment::End) => self.reuse_coupon(unit).await,
                (Break::EarnTwice, Moment::End) => self.earn_twice(unit).await,
                (Break::RefundTwice, Moment::End) => self.pay_out_again(unit, Owed::ByBuyer).await,
                (Break::LateTwice, Moment::End) => self.pay_out_again(unit, Owed::Late).await,
                (
                    Break::LoseEffect
                    | Break::DoubleEffect
                    | Break::Reorder
                    | Break::LoseEvent
                    | Break::Unconfirm
                    | Break::FreeProduct
                    | Break::SecondBuyer
                    | Break::OpenLetter
                    | Break::SpendAttempt
                    | Break::Unbalance
                    | Break::DriftBalance
                    | Break::LeaveHold
                    | Break::ReleaseHold
                    | Break::ReuseCoupon
                    | Break::EarnTwice
                    | Break::RefundTwice
                    | Break::LateTwice,
                    Moment::Outage(_) | Moment::End,
                ) => Ok(()),
            }
        })
    }

    /// The log says that it is done, so nobody does it.
    async fn lose_effect(&self, unit: &mut dyn UnitOfWork, since: DateTime<Utc>) -> Result<(), Spared> {
        let paid = events(unit, EventType::OrderPaid, Some(since)).await?;
        let row = paid.first().ok_or(Spared::Nothing)?;
        Ok(unit.record(&[self.consumption("fulfillment", row, Expected::Absent, 1)]).await?)
    }

    /// The log says that both are done, and they were: the wrong way round.
    async fn reorder(&self, unit: &mut dyn UnitOfWork, since: DateTime<Utc>) -> Result<(), Spared> {
        let mut changed = events(unit, EventType::OrderStatusChanged, Some(since)).await?;
        changed.sort_by_key(|row| (row.aggregate.id, row.aggregate_seq));
        let pair =
            changed.windows(2).find(|pair| matches!(pair, [one, two] if one.aggregate == two.aggregate));
        let pair = pair.ok_or(Spared::Nothing)?;
        let records: Vec<Consumption> =
            pair.iter().map(|row| self.consumption("status-sync", row, Expected::Absent, 1)).collect();
        unit.record(&records).await?;
        for row in pair.iter().rev() {
            unit.notify(&self.notifications(row).ok_or(Spared::Nothing)?).await?;
        }
        Ok(())
    }

    async fn double_effect(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let order = self.paid_order(unit).await?;
        let tasks = EffectQueries::shipment_tasks(unit, TENANT, order.id).await?;
        Ok(unit.open_shipments(&tasks).await?)
    }

    async fn lose_event(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let order = self.paid_order(unit).await?;
        one(unit.advance_order(&Order { version: order.version + 1, ..order }).await?)
    }

    async fn unconfirm(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let paid = events(unit, EventType::OrderPaid, None).await?;
        let event_id = paid.first().ok_or(Spared::Nothing)?.event_id.clone();
        let due = self.now + TimeDelta::hours(1);
        unit.redrive(&[Redrive { event_id, due }], self.now).await?;
        Ok(())
    }

    async fn free_product(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let order = self.paid_order(unit).await?;
        let product =
            ProductQueries::product_by_id(unit, TENANT, order.product).await?.ok_or(Spared::Nothing)?;
        let freed = product.apply(ProductAction::Release, self.now).map_err(|_| Spared::Nothing)?;
        one(unit.advance_product(&freed).await?)
    }

    /// The lamp is what was bought by one of the crowd.
    async fn second_buyer(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let mut sold = None;
        for order in orders(unit).await? {
            if order.buyer.get() > super::plan::USERS {
                sold = Some(order);
            }
        }
        let sold = sold.ok_or(Spared::Nothing)?;
        let id = OrderId::try_from(MAX_ID).map_err(|_| Spared::Nothing)?;
        let buyer = UserId::try_from(1).map_err(|_| Spared::Nothing)?;
        Ok(unit.insert_order(&Order { id, buyer, ..sold }).await?)
    }

    async fn open_letter(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let letter = DeadLetter {
            queue: FULFILLMENT_QUEUE.to_owned(),
            key: "nobody-explains-this".to_owned(),
            tenant: TENANT,
            event_type: None,
            trace_id: None,
            body: String::new(),
            reason: "broken on purpose".to_owned(),
            died_at: self.now,
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        };
        Ok(unit.park(&[letter]).await?)
    }

    async fn spend_attempt(&self, unit: &mut dyn UnitOfWork) -> Result<(), Spared> {
        let paid = events(unit, EventType::OrderPaid, None).await?;
        let row = paid.first().ok_or(Spared::Nothing)?;
        let there =
            ConsumeQueries::consumption(unit, "webhooks", &row.event_id).await?.ok_or(Spared::Nothing)?;
        let expected = Expected::At(there.status, there.attempts);
        Ok(unit.record(&[self.consumption("webhooks", row, expected, there.attempts + 1)]).await?)
    }

    /// An order that was paid and not shipped.
    async fn paid_order(&self, unit: &mut dyn UnitOfWork) -> Result<Order, Spared> {
        let orders = orders(unit).await?;
        orders.into_iter().find(|order| order.status == OrderStatus::Paid).ok_or(Spared::Nothing)
    }

    fn consumption(&self, consumer: &str, row: &OutboxRow, expected: Expected, attempts: u32) -> Consumption {
        Consumption {
            consumer: consumer.to_owned(),
            event_id: row.event_id.clone(),
            event_type: row.event_type.clone(),
            aggregate: row.aggregate.clone(),
            aggregate_seq: row.aggregate_seq,
            expected,
            status: ConsumeStatus::Success,
            attempts,
            next_retry_time: None,
            lease_until: None,
            error_message: None,
            idempotency_key: None,
            consume_result: None,
            payload_hash: String::new(),
            trace_id: row.trace_id().to_owned(),
            cost_ms: 0,
            consume_time: self.app.now(),
        }
    }

    fn notifications(&self, row: &OutboxRow) -> Option<[Notification; 2]> {
        let payload = serde_json::from_str(&row.payload).ok()?;
        let EventBody::OrderStatusChanged(body) =
            EventBody::parse(EventType::OrderStatusChanged, &payload).ok()?
        else {
            return None;
        };
        let parties = [(OrderSide::Buyer, body.order.buyer_id), (OrderSide::Seller, body.order.seller_id)];
        Some(parties.map(|(side, recipient)| Notification {
            tenant: row.aggregate.tenant,
            recipient,
            side,
            order: body.order.order_id,
            aggregate_seq: row.aggregate_seq,
            old_status: body.old_status,
            new_status: body.new_status,
            changed_at: body.changed_at,
            event_id: row.event_id.clone(),
            at: self.now,
        }))
    }
}

/// Events of a type, oldest first.
async fn events(
    unit: &mut dyn UnitOfWork,
    event_type: EventType,
    since: Option<DateTime<Utc>>,
) -> Result<Vec<OutboxRow>, Spared> {
    let event_type = Some(event_type.as_str().to_owned());
    let filter = OutboxFilter { event_type, from: since, ..OutboxFilter::default() };
    let mut rows = OutboxQueries::outbox_page(unit, &filter, None, LOOKED_THROUGH).await?;
    rows.reverse();
    Ok(rows)
}

/// Orders that were paid.
async fn orders(unit: &mut dyn UnitOfWork) -> Result<Vec<Order>, Spared> {
    let mut orders = Vec::new();
    for row in events(unit, EventType::OrderPaid, None).await? {
        let Ok(id) = OrderId::try_from(row.aggregate.id) else { continue };
        orders.extend(OrderQueries::order_by_id(unit, TENANT, id).await?);
    }
    Ok(orders)
}

fn one(changed: Changed) -> Result<(), Spared> {
    match changed {
        Changed::One => Ok(()),
        Changed::None => Err(Spared::Nothing),
    }
}
