//! Queries of buyers, sellers and operators.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use marketplace_domain::{
    Balance, Coupon, CouponId, Hold, Order, OrderActor, OrderId, OrderNo, OrderStatus, Payment, PaymentId,
    Product, ProductId, ProductStatus, Purse, Refund, ShipmentState,
};

use super::UseCaseError;
use crate::context::CommandContext;
use crate::ports::{
    BuyerCredit, LedgerEntry, ListedShipment, ListingEntry, MarketTransactor, Notification, OrderSide,
};
use crate::privacy;
use handover_outbox::Page;
use handover_outbox::ports::Numbered;

/// Queries of buyers, sellers and operators.
#[derive(Clone)]
pub struct Queries {
    pub(crate) tx: MarketTransactor,
    /// Time after which an order is cancelled that is not paid.
    pub(crate) pending_timeout: Duration,
}

/// The payments of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPayments {
    /// Sorted by id.
    pub payments: Vec<Payment>,
    /// Time at which the order is cancelled if it is not paid; `None` unless it is `pending`.
    pub expires_at: Option<DateTime<Utc>>,
}

/// A payment, and the deadline of its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderPayment {
    pub payment: Payment,
    /// Time at which the order is cancelled if it is not paid; `None` unless it is `pending`, and for the payment of an invoice.
    pub expires_at: Option<DateTime<Utc>>,
}

impl From<OrderPayment> for Payment {
    fn from(found: OrderPayment) -> Payment {
        found.payment
    }
}

impl Queries {
    /// Returns a product of the caller's tenant.
    pub async fn find_product(
        &self,
        context: &CommandContext,
        id: ProductId,
    ) -> Result<Product, UseCaseError> {
        let found = self.tx.view().await?.product_by_id(context.tenant, id).await?;
        found.ok_or(UseCaseError::NotFound { what: "product" })
    }

    /// Returns a page of the products of the caller's tenant.
    pub async fn products(
        &self,
        context: &CommandContext,
        status: Option<ProductStatus>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Page<Product>, UseCaseError> {
        let items = self
            .tx
            .view()
            .await?
            .products_page(context.tenant, status, before, limit.saturating_add(1))
            .await?;
        Ok(Page::cut(items, limit, |product| product.id.get()))
    }

    /// Returns a page of the caller's listing, greatest product id first.
    pub async fn listings(
        &self,
        context: &CommandContext,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Page<ListingEntry>, UseCaseError> {
        let user = context.require_user()?;
        let mut view = self.tx.view().await?;
        let items = view.listings_page(context.tenant, user, before, limit.saturating_add(1)).await?;
        Ok(Page::cut(items, limit, |entry| entry.product.get()))
    }

    /// Returns a page of the caller's shipment tasks as buyer or seller, in this state (`None`: in any).
    pub async fn shipments(
        &self,
        context: &CommandContext,
        side: OrderSide,
        state: Option<ShipmentState>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<Numbered<ListedShipment>>, UseCaseError> {
        let user = context.require_user()?;
        let mut view = self.tx.view().await?;
        let limit_with_next = limit.saturating_add(1);
        let items = view.shipments_page(context.tenant, user, side, state, before, limit_with_next).await?;
        Ok(Page::cut(items, limit, |row| row.id))
    }

    /// Returns a page of the caller's notifications.
    pub async fn notifications(
        &self,
        context: &CommandContext,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<Numbered<Notification>>, UseCaseError> {
        let user = context.require_user()?;
        let mut view = self.tx.view().await?;
        let items = view.notifications_page(context.tenant, user, before, limit.saturating_add(1)).await?;
        Ok(Page::cut(items, limit, |row| row.id))
    }

    /// Returns the caller's credit; `None` before the first counted order.
    pub async fn credit(&self, context: &CommandContext) -> Result<Option<BuyerCredit>, UseCaseError> {
        Ok(self.tx.view().await?.credit_of(context.tenant, context.require_user()?).await?)
    }
}

/// Balance, holds and ledger entries of one purse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountBalance {
    pub balance: Balance,
    /// `FROZEN` holds.
    pub holds: Vec<Hold>,
    /// A page of ledger entries, newest first.
    pub entries: Page<Numbered<LedgerEntry>>,
}

impl Queries {
    /// Returns the caller's wallet or points.
    pub async fn purse(
        &self,
        context: &CommandContext,
        purse: Purse,
        before: Option<i64>,
        limit: u32,
    ) -> Result<AccountBalance, UseCaseError> {
        let tenant = context.tenant;
        let user = context.require_user()?;
        let mut view = self.tx.view().await?;
        let balance = view.balance_of(tenant, user, purse).await?;
        let holds = view.holds_of_user(tenant, user, purse.asset()).await?;
        let entries = view.entries_page(tenant, user, purse, before, limit.saturating_add(1)).await?;
        Ok(AccountBalance {
            balance: balance.unwrap_or_else(|| Balance::empty(tenant, user, purse, self.tx.now())),
            holds,
            entries: Page::cut(entries, limit, |entry| entry.id),
        })
    }

    /// Returns a page of the caller's coupons, greatest id first.
    pub async fn coupons(
        &self,
        context: &CommandContext,
        before: Option<CouponId>,
        limit: u32,
    ) -> Result<Page<Coupon>, UseCaseError> {
        let user = context.require_user()?;
        let items =
            self.tx.view().await?.coupons_page(context.tenant, user, before, limit.saturating_add(1)).await?;
        Ok(Page::cut(items, limit, |coupon| coupon.id.get()))
    }

    /// Returns an order that the caller bought or sold.
    pub async fn find_order(&self, context: &CommandContext, id: OrderId) -> Result<Order, UseCaseError> {
        let user = context.require_user()?;
        let found = self.tx.view().await?.order_of_party(context.tenant, id, user).await?;
        found.ok_or(UseCaseError::NotFound { what: "order" })
    }

    /// Returns the order with this number, if the caller bought or sold it.
    pub async fn order_by_number(
        &self,
        context: &CommandContext,
        number: &OrderNo,
    ) -> Result<Option<Order>, UseCaseError> {
        let user = context.require_user()?;
        let mut view = self.tx.view().await?;
        let found = view.orders_by_id(Some(context.tenant), &number.possible_ids()).await?;
        let is_wanted =
            |order: &Order| order.order_no == *number && order.role_of(user) != OrderActor::Unrelated;
        Ok(found.into_iter().find(is_wanted))
    }

    /// Returns a page of orders that the caller bought or sold.
    pub async fn orders(
        &self,
        context: &CommandContext,
        side: OrderSide,
        status: Option<OrderStatus>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Page<Order>, UseCaseError> {
        let user = context.require_user()?;
        let mut view = self.tx.view().await?;
        let items =
            view.orders_page(context.tenant, user, side, status, before, limit.saturating_add(1)).await?;
        Ok(Page::cut(items, limit, |order| order.id.get()))
    }

    /// Returns the payments of an order that the caller bought or sold, sorted by id.
    pub async fn payments(
        &self,
        context: &CommandContext,
        id: OrderId,
    ) -> Result<OrderPayments, UseCaseError> {
        let order = self.find_order(context, id).await?;
        let payments = self.tx.view().await?.payments_of(order.tenant, &[order.id]).await?;
        Ok(OrderPayments { payments, expires_at: payment_deadline(&order, self.pending_timeout) })
    }

    /// Returns a payment of an order that the caller bought or sold.
    pub async fn payment(
        &self,
        context: &CommandContext,
        id: OrderId,
        payment: PaymentId,
    ) -> Result<OrderPayment, UseCaseError> {
        let OrderPayments { payments, expires_at } = self.payments(context, id).await?;
        let found = payments.into_iter().find(|found| found.id == payment);
        let payment = found.ok_or(UseCaseError::NotFound { what: "payment" })?;
        Ok(OrderPayment { payment, expires_at })
    }

    /// Returns the refunds of an order, sorted by id, for its parties. They do not see what an operator wrote.
    pub async fn refunds(&self, context: &CommandContext, id: OrderId) -> Result<Vec<Refund>, UseCaseError> {
        let order = self.find_order(context, id).await?;
        let mut refunds = self.tx.view().await?.refunds_of(order.tenant, &[order.id]).await?;
        refunds.iter_mut().for_each(privacy::mask_operators_reason);
        Ok(refunds)
    }
}

/// Time at which a pending order is cancelled if it is not paid; `None` for another order.
pub(crate) fn payment_deadline(order: &Order, pending_timeout: Duration) -> Option<DateTime<Utc>> {
    if order.status == OrderStatus::Pending { after(order.create_time, pending_timeout) } else { None }
}

/// The end of this time; `None` outside the supported calendar.
pub(crate) fn after(start: DateTime<Utc>, time: Duration) -> Option<DateTime<Utc>> {
    TimeDelta::from_std(time).ok().and_then(|time| start.checked_add_signed(time))
}
