//! Products, orders and payments: each write is a step of a state machine.

use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::{Faulty, passes_on};

fn of_product(product: &Product) -> String {
    format!("product {}", product.id)
}

fn of_payment(payment: &Payment) -> String {
    format!("payment {} of order {}", payment.id, payment.order)
}

passes_on! { impl ProductRepo for MarketUnit {
    fn insert_product(product: &Product) -> (),
        then |unit, _done| unit.inserted("a product", product.status.as_str(), || of_product(product));
    fn advance_product(after: &Product) -> Changed,
        first |unit| before = unit.inner.product_by_id(after.tenant, after.id).await?,
        then |unit, changed| {
            let from = before.map(|before| before.status.as_str());
            unit.advanced(*changed, ("a product", from, after.status.as_str()), || of_product(after));
        };
} }
passes_on! { impl OrderRepo for MarketUnit {
    fn insert_order(order: &Order) -> (),
        then |unit, _done| {
            let what = || format!("order {} of product {}", order.id, order.product);
            unit.inserted("an order", order.status.as_str(), what);
        };
    fn advance_order(after: &Order) -> Changed,
        first |unit| before = {
            let before = unit.inner.order_by_id(after.tenant, after.id).await?;
            if let Some(before) = &before {
                unit.check_moved(before, after).await?;
            }
            before
        },
        then |unit, changed| {
            let from = before.map(|before| before.status.as_str());
            let what = || format!("order {}", after.id);
            unit.advanced(*changed, ("an order", from, after.status.as_str()), what);
        };
} }
passes_on! { impl PaymentRepo for MarketUnit {
    fn insert_payment(payment: &Payment) -> (),
        then |unit, _done| unit.inserted("a payment", payment.status.as_str(), || of_payment(payment));
    fn advance_payment(after: &Payment) -> Changed,
        first |unit| before = unit.inner.payment_by_id(after.id).await?,
        then |unit, changed| {
            let from = before.map(|before| before.status.as_str());
            unit.advanced(*changed, ("a payment", from, after.status.as_str()), || of_payment(after));
        };
} }

impl<I: MarketUnit + ?Sized> Faulty<I> {
    /// An order is paid when every asset it names is held, and is not shipped while it is being paid back.
    async fn check_moved(&mut self, before: &Order, after: &Order) -> Result<(), StoreError> {
        match (before.status, after.status) {
            (OrderStatus::Pending, OrderStatus::Paid) => {
                let holds = self.inner.holds_of(after.tenant, after.id).await?;
                let is_held =
                    |asset| holds.iter().any(|it| it.asset == asset && it.status == HoldStatus::Frozen);
                if let Some(asset) = after.assets.named().find(|asset| !is_held(*asset)) {
                    self.wrote
                        .broken
                        .push(format!("order {} was paid, and its {asset} is not locked", after.id));
                }
            }
            (OrderStatus::Paid, OrderStatus::Shipped) if before.refund.is_some() => {
                self.wrote.broken.push(format!("order {} was shipped while it is being paid back", after.id));
            }
            _ => {}
        }
        Ok(())
    }
}
