//! Orders that were completed in past months: no request can complete an order in the past, so that the demo inserts them.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{MAX_ID, TenantId};
use handover_outbox::ports::StoreError;
use marketplace::App;
use marketplace_domain::{BillingPeriod, Money, Order, OrderAssets, OrderId, OrderNo, OrderStatus};

/// Number of past months, each with one order.
pub(super) const MONTHS: usize = 2;

/// Total of an order.
const TOTAL: i64 = 200_000;

/// Inserts one completed order in each of the last closed months, and returns these months. Their products and users take no
/// part in the day.
pub(super) async fn complete_orders(app: &App) -> Result<Vec<BillingPeriod>, StoreError> {
    let months = closed_months(app.tx.now());
    let mut unit = app.tx.store().begin().await?;
    for (month, number) in months.iter().zip(0..) {
        if let Some(order) = completed(*month, MAX_ID - number) {
            unit.insert_order(&order).await?;
        }
    }
    unit.commit().await?;
    Ok(months)
}

fn closed_months(now: DateTime<Utc>) -> Vec<BillingPeriod> {
    let current = BillingPeriod::containing(now).ok();
    let past = std::iter::successors(current, |month| month.previous()).skip(1);
    past.filter(|month| month.closed_at() <= now).take(MONTHS).collect()
}

/// An order that was completed at the end of this month. `None` if the id is not valid.
fn completed(month: BillingPeriod, id: i64) -> Option<Order> {
    let complete_time = month.end() - TimeDelta::hours(1);
    let order: OrderId = id.try_into().ok()?;
    Some(Order {
        id: order,
        order_no: OrderNo::new(complete_time, order),
        tenant: TenantId::DEFAULT,
        product: id.try_into().ok()?,
        buyer: (MAX_ID - 1).try_into().ok()?,
        seller: MAX_ID.try_into().ok()?,
        status: OrderStatus::Completed,
        cancel_reason: None,
        total: Money::from_minor(TOTAL).ok()?,
        assets: OrderAssets::NONE,
        payable: Money::from_minor(TOTAL).ok()?,
        refund: None,
        shipment: None,
        version: 4,
        create_time: complete_time - TimeDelta::days(3),
        pay_time: Some(complete_time - TimeDelta::days(3)),
        complete_time: Some(complete_time),
        update_time: complete_time,
    })
}
