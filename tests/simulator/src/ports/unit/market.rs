//! Products, orders and payments: each write is a step of a state machine.

use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::{Faulty, Unit};

fn of_product(product: &Product) -> String {
    format!("product {}", product.id)
}

fn of_payment(payment: &Payment) -> String {
    format!("payment {} of order {}", payment.id, payment.order)
}

impl ProductRepoWrapper for Unit {
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        self.inner.insert_product(product).await?;
        self.inserted("a product", product.status.as_str(), || of_product(product));
        Ok(())
    }

    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError> {
        let before = self.inner.product_by_id(after.tenant, after.id).await?;
        let changed = self.inner.advance_product(after).await?;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("a product", from, after.status.as_str()), || of_product(after));
        Ok(changed)
    }
}

impl OrderRepoWrapper for Unit {
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError> {
        self.inner.insert_order(order).await?;
        let what = || format!("order {} of product {}", order.id, order.product);
        self.inserted("an order", order.status.as_str(), what);
        Ok(())
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        let before = self.inner.order_by_id(after.tenant, after.id).await?;
        if let Some(before) = &before {
            self.check_moved(before, after).await?;
        }
        let changed = self.inner.advance_order(after).await?;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("an order", from, after.status.as_str()), || format!("order {}", after.id));
        Ok(changed)
    }
}

impl PaymentRepoWrapper for Unit {
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        self.inner.insert_payment(payment).await?;
        self.inserted("a payment", payment.status.as_str(), || of_payment(payment));
        Ok(())
    }

    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError> {
        let before = self.inner.payment_by_id(after.id).await?;
        let changed = self.inner.advance_payment(after).await?;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("a payment", from, after.status.as_str()), || of_payment(after));
        Ok(changed)
    }
}

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
