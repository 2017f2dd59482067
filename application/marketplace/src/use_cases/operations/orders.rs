//! Use cases: operators find orders by what a user or the gateway names, and see what an order waits for.

use chrono::{DateTime, Utc};
use handover_events::{Json, TenantId};
use marketplace_domain::{
    Order, OrderId, OrderNo, OrderStatus, Payment, PaymentId, Reference, Refund, Shipment, UserId,
};

use super::{Operations, visible_tenant};
use crate::context::CommandContext;
use crate::ports::{MarketView, OrderSide};
use crate::privacy;
use crate::use_cases::UseCaseError;
use crate::use_cases::queries::{after, payment_deadline};
use handover_outbox::operations::{Action, Operator, count};
use handover_outbox::ports::StoreError;
use handover_outbox::{MASK, Page};

/// What is known about the orders that an operator looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderSearch {
    Number(OrderNo),
    Buyer(UserId),
    Payment(PaymentId),
    /// The name of a payment, or of an attempt at a refund, towards the gateway.
    Reference(Reference),
    /// The gateway's id of a transaction that captured money.
    Transaction(String),
}

/// Selects orders for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindOrders {
    pub search: OrderSearch,
    /// `None`: any tenant that the operator sees; for [`OrderSearch::Buyer`], the operator's own, because the number of a user
    /// is unique within a tenant only.
    pub tenant: Option<TenantId>,
    /// Only orders with an id below this one.
    pub before: Option<OrderId>,
    pub limit: u32,
}

/// An order with its payments and refunds, as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderDetails {
    pub order: Order,
    /// Sorted by id.
    pub payments: Vec<Payment>,
    /// Sorted by id.
    pub refunds: Vec<Refund>,
    pub deadline: Option<Deadline>,
}

/// The change that is made to an order if nobody changes it earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    pub at: DateTime<Utc>,
    /// The order's status afterwards.
    pub status: OrderStatus,
}

impl Operations {
    /// Returns a page of the orders that match, greatest id first. Carriers and tracking numbers are masked for callers
    /// without the role `pii`. The call is recorded in the audit log.
    pub async fn find_orders(
        &self,
        context: &CommandContext,
        query: FindOrders,
    ) -> Result<Page<Order>, UseCaseError> {
        let operator = context.operator()?;
        let tenant = visible_tenant(&operator, query.tenant)?;
        let FindOrders { search, before, limit, .. } = query;
        let (name, value) = selection(&search);
        let mut view = self.tx.view().await?;
        let found = match search {
            OrderSearch::Buyer(buyer) => {
                let tenant = tenant.unwrap_or(operator.tenant);
                let limit_with_next = limit.saturating_add(1);
                view.orders_page(tenant, buyer, OrderSide::Buyer, None, before, limit_with_next).await?
            }
            OrderSearch::Number(number) => {
                let mut orders = view.orders_by_id(tenant, &number.possible_ids()).await?;
                orders.retain(|order| order.order_no == number);
                orders
            }
            OrderSearch::Payment(_) | OrderSearch::Reference(_) | OrderSearch::Transaction(_) => {
                match named_order(view.as_mut(), &search).await? {
                    Some(id) => view.orders_by_id(tenant, &[id]).await?,
                    None => Vec::new(),
                }
            }
        };
        drop(view);
        let mut page = Page::cut(found, limit, |order| order.id.get());
        page.items.iter_mut().for_each(|order| mask_shipment(context, order));
        let tenant_field = ("tenantId", query.tenant.map(|tenant| tenant.get().into()));
        let action =
            Action::read_personal_data("orders.find", &operator, [(name, Some(value)), tenant_field]);
        action.record(&self.tx, &operator, tenant, count(page.items.len())).await?;
        Ok(page)
    }

    /// Returns one order with its payments, refunds and deadline; an order of another tenant is not found. What users wrote is
    /// masked for callers without the role `pii`. The call is recorded in the audit log.
    pub async fn show_order(
        &self,
        context: &CommandContext,
        id: OrderId,
    ) -> Result<OrderDetails, UseCaseError> {
        let operator = context.operator()?;
        let found = self.order_details(&operator, id).await?;
        let tenant = found.as_ref().map(|details| details.order.tenant);
        let action =
            Action::read_personal_data("orders.show", &operator, [("orderId", Some(id.get().into()))]);
        action.record(&self.tx, &operator, tenant, u64::from(found.is_some())).await?;
        let mut details = found.ok_or(UseCaseError::NotFound { what: "order" })?;
        mask_shipment(context, &mut details.order);
        details.refunds.iter_mut().for_each(|refund| privacy::mask_reason(context, refund));
        Ok(details)
    }

    async fn order_details(
        &self,
        operator: &Operator,
        id: OrderId,
    ) -> Result<Option<OrderDetails>, StoreError> {
        let mut view = self.tx.view().await?;
        let Some(order) = view.orders_by_id(operator.only_tenant(), &[id]).await?.pop() else {
            return Ok(None);
        };
        let payments = view.payments_of(order.tenant, &[id]).await?;
        let refunds = view.refunds_of(order.tenant, &[id]).await?;
        let deadline = self.deadline(&order);
        Ok(Some(OrderDetails { order, payments, refunds, deadline }))
    }

    /// A refund in progress stops the automatic completion.
    pub(super) fn deadline(&self, order: &Order) -> Option<Deadline> {
        let (at, status) = match order.status {
            OrderStatus::Pending => {
                (payment_deadline(order, self.handlers.pending_timeout), OrderStatus::Cancelled)
            }
            OrderStatus::Shipped if order.running_refund().is_none() => {
                (after(order.update_time, self.auto_completion?), OrderStatus::Completed)
            }
            OrderStatus::Shipped
            | OrderStatus::Paid
            | OrderStatus::Completed
            | OrderStatus::Cancelled
            | OrderStatus::Refunded => return None,
        };
        at.map(|at| Deadline { at, status })
    }
}

/// The order of the payment or refund that the search names, in any tenant. Those of invoices have none.
async fn named_order(view: &mut dyn MarketView, search: &OrderSearch) -> Result<Option<OrderId>, StoreError> {
    let payment = match search {
        OrderSearch::Payment(id) => view.payment_by_id(*id).await?,
        OrderSearch::Reference(reference) => match view.payment_by_reference(*reference).await? {
            Some(payment) => Some(payment),
            None => {
                let Some((refund, _)) = view.attempt_by_reference(*reference).await? else { return Ok(None) };
                return Ok(view.refund_by_id(refund).await?.and_then(|refund| refund.of.order()));
            }
        },
        OrderSearch::Transaction(id) => match view.capture_by_transaction(id).await? {
            Some(capture) => view.payment_by_id(capture.payment).await?,
            None => view.payment_by_transaction(id).await?,
        },
        OrderSearch::Number(_) | OrderSearch::Buyer(_) => None,
    };
    Ok(payment.and_then(|payment| payment.of.order()))
}

/// Name and value in the audit log.
fn selection(search: &OrderSearch) -> (&'static str, Json) {
    match search {
        OrderSearch::Number(number) => ("orderNo", number.as_str().into()),
        OrderSearch::Buyer(user) => ("buyerId", user.get().into()),
        OrderSearch::Payment(id) => ("paymentId", id.get().into()),
        OrderSearch::Reference(reference) => ("reference", reference.to_string().into()),
        OrderSearch::Transaction(id) => ("transactionId", id.as_str().into()),
    }
}

fn mask_shipment(context: &CommandContext, order: &mut Order) {
    if order.shipment.is_some() && !privacy::sees_personal_data(context) {
        order.shipment = Shipment::new(MASK.to_owned(), MASK.to_owned()).ok();
    }
}
