//! Products, orders and payments: each write is a transition of a state machine.

use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{MarketUnit, OrderRepoWrapper, PaymentRepoWrapper, ProductRepoWrapper};
use marketplace_domain::{HoldStatus, Order, OrderStatus, Payment, Product};

use super::super::super::unit_writes::StatusChange;
use super::super::{Faulty, Unit};

fn of_product(product: &Product) -> String {
    format!("product {}", product.id)
}

fn of_payment(payment: &Payment) -> String {
    format!("payment {} of {}", payment.id, payment.of)
}

impl ProductRepoWrapper for Unit {
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        self.inner.insert_product(product).await?;
        self.inserted("product", product.status.as_str(), || of_product(product));
        Ok(())
    }

    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError> {
        let before = self.inner.product_by_id(after.tenant, after.id).await?;
        let changed = self.inner.advance_product(after).await?;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("product", from, after.status.as_str()), || of_product(after));
        Ok(changed)
    }
}

impl OrderRepoWrapper for Unit {
    async fn insert_order(&mut self, order: &Order) -> Result<(), StoreError> {
        self.inner.insert_order(order).await?;
        let what = || format!("order {} of product {}", order.id, order.product);
        self.inserted("order", order.status.as_str(), what);
        self.written(Changed::One, None, StatusChange::of_order(order));
        Ok(())
    }

    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        let before = self.inner.order_by_id(after.tenant, after.id).await?;
        if let Some(before) = &before {
            self.check_transition(before, after).await?;
        }
        let changed = self.inner.advance_order(after).await?;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("order", from, after.status.as_str()), || format!("order {}", after.id));
        self.written(changed, from, StatusChange::of_order(after));
        Ok(changed)
    }
}

impl PaymentRepoWrapper for Unit {
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        self.inner.insert_payment(payment).await?;
        self.inserted("payment", payment.status.as_str(), || of_payment(payment));
        self.written(Changed::One, None, StatusChange::of_payment(payment));
        Ok(())
    }

    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError> {
        let before = self.inner.payment_by_id(after.id).await?;
        let changed = self.inner.advance_payment(after).await?;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("payment", from, after.status.as_str()), || of_payment(after));
        self.written(changed, from, StatusChange::of_payment(after));
        Ok(changed)
    }
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    /// An order may be paid only if all its assets are locked, and must not be shipped during a refund.
    async fn check_transition(&mut self, before: &Order, after: &Order) -> Result<(), StoreError> {
        match (before.status, after.status) {
            (OrderStatus::Pending, OrderStatus::Paid) => {
                let holds = self.inner.holds_of(after.tenant, &[after.id]).await?;
                let is_locked =
                    |asset| holds.iter().any(|it| it.asset == asset && it.status == HoldStatus::Frozen);
                if let Some(asset) = after.assets.named().find(|asset| !is_locked(*asset)) {
                    self.writes
                        .violations
                        .push(format!("order {} was paid, but its {asset} is not locked", after.id));
                }
            }
            (OrderStatus::Paid, OrderStatus::Shipped) if before.refund.is_some() => {
                self.writes.violations.push(format!("order {} was shipped during a refund", after.id));
            }
            _ => {}
        }
        Ok(())
    }
}
