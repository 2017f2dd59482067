//! Use case: the texts that a user wrote, or that describe the user, are masked.
//!
//! User ids are the same in all tenants, so that the erasure concerns all tenants. Ids, amounts and times stay: a masked row
//! passes reconciliation. Masked are
//!
//! - the titles of the user's products,
//! - the texts about finished orders in which the user is buyer or seller, whoever wrote them, and their settled events,
//!   also in the files of the archive,
//! - reasons in the audit log and of findings that name the user or such an order, and those that the user wrote,
//! - stored responses to requests of the user, and to requests about such an order, its refunds or a product of the user.
//!
//! What is not finished or settled is counted; a later call masks it. Each unit of work is complete in itself, so that a call
//! that was interrupted at any point is continued by the next one.

use std::collections::BTreeSet;

use handover_events::{AggregateRef, Json, TenantId};
use marketplace_domain::{
    AggregateType, Order, OrderId, PaymentId, PaymentStatus, ProductId, RefundId, RefundStatus, UserId,
};

use super::Operations;
use crate::context::CommandContext;
use crate::ports::{FindingFilter, OrderSide, RequestRecord, RequestState, StoredResponse, Work};
use crate::privacy::masked_response;
use crate::use_cases::UseCaseError;
use handover_outbox::operations::{
    Action, ErasedEvents, OperationError, Operator, Reason, changed_by_earlier_attempt,
    erase_archived_events, erase_audit_reasons, erase_events,
};
use handover_outbox::ports::{AuditEntry, Changed, Numbered, StoreError};
use handover_outbox::{BoxFuture, MASK, Outbox, with_tx};

/// Rows per page.
const PAGE: u32 = 200;
/// Orders of which the texts are masked in one unit of work.
const ORDERS: usize = 50;

/// What an erasure did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErasedUser {
    /// Number of products with a masked title.
    pub products: u64,
    /// Number of changed rows of orders, payments, refunds and reports of the gateway.
    pub orders: u64,
    /// Changed rows about events, and the events that were left.
    pub events: ErasedEvents,
    /// Number of findings with a masked reason.
    pub findings: u64,
    /// Number of masked responses.
    pub responses: u64,
    /// Number of audit entries with a masked reason.
    pub audit_entries: u64,
    /// Number of orders that were left, because they, a payment or a refund of them are not finished.
    pub unfinished_orders: u64,
}

impl ErasedUser {
    /// Number of changed rows.
    pub fn rows(&self) -> u64 {
        self.products + self.orders + self.events.rows + self.findings + self.responses + self.audit_entries
    }

    /// Number of events that were left.
    pub fn unsettled_events(&self) -> u64 {
        self.events.left.values().sum()
    }

    /// Whether nothing is left to a later call.
    pub fn is_complete(&self) -> bool {
        self.unfinished_orders == 0
            && self.unsettled_events() == 0
            && self.events.archived == 0
            && self.events.files_left == 0
    }
}

/// What belongs to the user, of all tenants.
#[derive(Default)]
struct Belongings {
    tenants: BTreeSet<TenantId>,
    products: BTreeSet<ProductId>,
    orders: BTreeSet<OrderId>,
    payments: BTreeSet<PaymentId>,
    refunds: BTreeSet<RefundId>,
    /// Of the finished orders, with their payments and refunds.
    aggregates: BTreeSet<AggregateRef>,
}

/// One erasure.
struct Erasure<'a> {
    operations: &'a Operations,
    outbox: &'a Outbox,
    operator: Operator,
    action: Action,
    user: UserId,
    found: Belongings,
    erased: ErasedUser,
}

impl Operations {
    /// Masks the texts that the user wrote, or that describe the user. A repeated call changes nothing that is masked.
    ///
    /// # Errors
    /// [`OperationError::ForAllTenants`]: the operator has no access to all tenants.
    pub async fn erase_user(
        &self,
        outbox: &Outbox,
        context: &CommandContext,
        user: UserId,
        reason: Reason,
    ) -> Result<ErasedUser, UseCaseError<OperationError>> {
        let operator = context.operator()?;
        if !operator.sees_all_tenants {
            return Err(UseCaseError::Refused(OperationError::ForAllTenants));
        }
        let selection = vec![("userId".to_owned(), user.get().into())];
        let action = Action { name: "users.erase", selection, reason: Some(reason) };
        let found = Belongings::default();
        let erased = ErasedUser::default();
        let mut erasure = Erasure { operations: self, outbox, operator, action, user, found, erased };
        erasure.products().await?;
        for tenant in erasure.found.tenants.clone() {
            for side in [OrderSide::Buyer, OrderSide::Seller] {
                erasure.orders(tenant, side).await?;
            }
        }
        erasure.archive().await?;
        erasure.findings().await?;
        erasure.responses().await?;
        erasure.audit_entries().await?;
        let Erasure { operator, action, erased, .. } = erasure;
        if erased.rows() == 0 {
            action.record(&self.tx, &operator, None, 0).await?;
        }
        Ok(erased)
    }
}

impl Erasure<'_> {
    /// Masks rows of a tenant in one unit of work, with an audit entry that also has the field `from`.
    async fn mask<I: Clone + Send + Sync + 'static>(
        &self,
        tenant: TenantId,
        from: (&str, i64),
        input: I,
        work: impl for<'u> Fn(&'u mut Work, &'u I) -> BoxFuture<'u, Result<u64, StoreError>>
        + Copy
        + Send
        + Sync
        + 'static,
    ) -> Result<u64, StoreError> {
        let mut action = self.action.clone();
        action.selection.push((from.0.to_owned(), from.1.into()));
        let entry = action.entry(&self.operator, (1, 1), self.operations.tx.now());
        let entry = AuditEntry { tenant, ..entry };
        with_tx(&self.operations.tx, (input, entry), move |unit, (input, entry), attempt| {
            Box::pin(async move {
                if let Some(changed) = changed_by_earlier_attempt(unit.outbox(), attempt, entry).await? {
                    return Ok(changed);
                }
                let changed = work(unit, input).await?;
                if changed > 0 {
                    let entry = AuditEntry { matched: changed, changed, ..entry.clone() };
                    unit.outbox().audit(&entry).await?;
                }
                Ok(changed)
            })
        })
        .await
    }

    /// Reads all products: every tenant with orders has products, and products have no index of their sellers.
    async fn products(&mut self) -> Result<(), StoreError> {
        let mut before = None;
        loop {
            let page = self.operations.tx.view().await?.newest_products(None, before, PAGE).await?;
            self.found.tenants.extend(page.iter().map(|product| product.tenant));
            let own: Vec<_> = page.iter().filter(|product| product.seller == self.user).collect();
            self.found.products.extend(own.iter().map(|product| product.id));
            let tenants: BTreeSet<TenantId> = own.iter().map(|product| product.tenant).collect();
            for tenant in tenants {
                let is_left = |id: &ProductId| {
                    own.iter().any(|it| it.id == *id && it.tenant == tenant && it.title.as_str() != MASK)
                };
                let ids: Vec<ProductId> = own.iter().map(|it| it.id).filter(is_left).collect();
                let Some(first) = ids.first() else { continue };
                let from = ("firstProductId", first.get());
                self.erased.products += self
                    .mask(tenant, from, ids, move |unit, ids| {
                        Box::pin(async move { unit.erase_titles(tenant, ids).await })
                    })
                    .await?;
            }
            before = page.last().map(|product| product.id);
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }

    /// The orders of the user as buyer or seller, in one tenant.
    async fn orders(
        &mut self,
        tenant: TenantId,
        side: OrderSide,
    ) -> Result<(), UseCaseError<OperationError>> {
        let mut before = None;
        loop {
            let mut view = self.operations.tx.view().await?;
            let page = view.orders_page(tenant, self.user, side, None, before, PAGE).await?;
            drop(view);
            for orders in page.chunks(ORDERS) {
                self.texts_of(tenant, orders).await?;
            }
            before = page.last().map(|order| order.id);
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }

    /// Masks the texts about the finished ones of these orders.
    async fn texts_of(
        &mut self,
        tenant: TenantId,
        orders: &[Order],
    ) -> Result<(), UseCaseError<OperationError>> {
        let ids: Vec<OrderId> = orders.iter().map(|order| order.id).collect();
        let mut view = self.operations.tx.view().await?;
        let payments = view.payments_of(tenant, &ids).await?;
        let refunds = view.refunds_of(tenant, &ids).await?;
        drop(view);
        let is_finished = |order: &&Order| {
            let pays = |of: Option<OrderId>| of == Some(order.id);
            order.status.is_terminal()
                && !payments.iter().any(|it| pays(it.of.order()) && it.status == PaymentStatus::Processing)
                && !refunds.iter().any(|it| pays(it.of.order()) && it.status == RefundStatus::Processing)
        };
        let finished: Vec<OrderId> = orders.iter().filter(is_finished).map(|order| order.id).collect();
        let is_new = |order: &&Order| !self.found.orders.contains(&order.id);
        let unfinished = orders.iter().filter(is_new).filter(|order| !is_finished(order)).count();
        self.erased.unfinished_orders += u64::try_from(unfinished).unwrap_or(u64::MAX);
        if let Some(first) = finished.first() {
            let from = ("firstOrderId", first.get());
            self.erased.orders += self
                .mask(tenant, from, finished.clone(), move |unit, orders| {
                    Box::pin(async move { unit.erase_order_texts(tenant, orders).await })
                })
                .await?;
        }
        let about = |kind: AggregateType, id: i64| AggregateRef {
            tenant,
            kind: kind.as_str().to_owned(),
            id: id.into(),
        };
        let is_of_finished = |of: Option<OrderId>| of.is_some_and(|of| finished.contains(&of));
        let own = finished.iter().map(|order| about(AggregateType::Order, order.get()));
        let payments_of = payments.iter().filter(|payment| is_of_finished(payment.of.order()));
        let refunds_of = refunds.iter().filter(|refund| is_of_finished(refund.of.order()));
        let aggregates: Vec<AggregateRef> = own
            .chain(payments_of.map(|payment| about(AggregateType::Payment, payment.id.get())))
            .chain(refunds_of.map(|refund| about(AggregateType::Refund, refund.id.get())))
            .collect();
        let erased = erase_events(self.outbox, &self.operator, &self.action, &aggregates).await;
        self.erased.events.add(erased.map_err(UseCaseError::Refused)?);
        self.found.aggregates.extend(aggregates);
        self.found.orders.extend(ids);
        self.found.payments.extend(payments.iter().map(|payment| payment.id));
        self.found.refunds.extend(refunds.iter().map(|refund| refund.id));
        Ok(())
    }

    /// All at once: a file contains events of many orders.
    async fn archive(&mut self) -> Result<(), UseCaseError<OperationError>> {
        let aggregates: Vec<AggregateRef> = self.found.aggregates.iter().cloned().collect();
        let erased = erase_archived_events(self.outbox, &self.operator, &self.action, &aggregates).await;
        self.erased.events.add(erased.map_err(UseCaseError::Refused)?);
        Ok(())
    }

    /// Findings have no index of their orders, and are few.
    async fn findings(&mut self) -> Result<(), StoreError> {
        let mut before = None;
        loop {
            let mut view = self.operations.tx.view().await?;
            let page = view.findings_page(FindingFilter::default(), before, PAGE).await?;
            drop(view);
            for Numbered { id, effect: finding } in &page {
                let has_reason = finding.acknowledged.as_ref().is_some_and(|by| by.reason != MASK);
                let is_about = finding.order.is_some_and(|order| self.found.orders.contains(&order));
                let is_own = finding.acknowledged.as_ref().is_some_and(|by| by.operator == self.name());
                if !has_reason || !(is_about || is_own) {
                    continue;
                }
                let tenant = finding.tenant.unwrap_or(self.operator.tenant);
                self.erased.findings += self
                    .mask(tenant, ("findingId", *id), *id, |unit, id| {
                        Box::pin(async move { unit.erase_finding_reasons(&[*id]).await })
                    })
                    .await?;
            }
            before = page.last().map(|finding| finding.id);
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }

    /// Stored responses are few, because they expire.
    async fn responses(&mut self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.operations.tx.view().await?.stored_responses(after, PAGE).await?;
            for Numbered { id, effect: request } in &page {
                let Some(masked) = self.masked(request) else { continue };
                self.erased.responses += self
                    .mask(request.scope.tenant, ("requestId", *id), masked, |unit, masked| {
                        Box::pin(async move {
                            Ok(match unit.advance_request(&masked.token, masked).await? {
                                Changed::One => 1,
                                // A later request has claimed the key.
                                Changed::None => 0,
                            })
                        })
                    })
                    .await?;
            }
            after = page.last().map(|request| request.id);
            if page.len() < PAGE as usize {
                return Ok(());
            }
        }
    }

    /// The request with a masked response; `None` if nothing in it is to be masked.
    fn masked(&self, request: &RequestRecord) -> Option<RequestRecord> {
        let RequestState::Success(StoredResponse { code, text }) = &request.state else { return None };
        let mut json = Json::parse(text).ok()?;
        if request.scope.user != self.user && !self.is_named_in(&json) {
            return None;
        }
        let changed = masked_response(&mut json);
        let state = RequestState::Success(StoredResponse { code: *code, text: json.to_string() });
        changed.then(|| RequestRecord { state, ..request.clone() })
    }

    async fn audit_entries(&mut self) -> Result<(), UseCaseError<OperationError>> {
        let is_about = |entry: &AuditEntry, selection: &Json, about: &[AggregateRef]| {
            entry.actor == self.name() || self.is_named_in(selection) || about.iter().any(|it| self.owns(it))
        };
        let erased = erase_audit_reasons(self.outbox, &self.operator, &self.action, is_about).await;
        self.erased.audit_entries += erased.map_err(UseCaseError::Refused)?;
        Ok(())
    }

    /// Name of the user as an operator.
    fn name(&self) -> String {
        format!("user:{}", self.user)
    }

    /// Whether an object or a part of it names the user, or one of the user's products, orders, payments or refunds.
    fn is_named_in(&self, json: &Json) -> bool {
        match json {
            Json::Object(fields) => fields.iter().any(|(name, value)| {
                let id = value.as_i64();
                let found = &self.found;
                let is_one_of = |names: &[&str], is: &dyn Fn(i64) -> bool| {
                    names.contains(&name.as_str()) && id.is_some_and(is)
                };
                is_one_of(&["userId", "buyerId", "sellerId"], &|id| id == self.user.get())
                    || is_one_of(&["productId"], &|id| contains(&found.products, id))
                    || is_one_of(&["orderId"], &|id| contains(&found.orders, id))
                    || is_one_of(&["paymentId"], &|id| contains(&found.payments, id))
                    || is_one_of(&["refundId"], &|id| contains(&found.refunds, id))
                    || self.is_named_in(value)
            }),
            Json::Array(items) => items.iter().any(|item| self.is_named_in(item)),
            Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => false,
        }
    }

    fn owns(&self, aggregate: &AggregateRef) -> bool {
        let id = aggregate.id.number();
        let is = |kind: AggregateType| aggregate.kind == kind.as_str();
        is(AggregateType::Order) && contains(&self.found.orders, id)
            || is(AggregateType::Payment) && contains(&self.found.payments, id)
            || is(AggregateType::Refund) && contains(&self.found.refunds, id)
    }
}

fn contains<T: Ord + TryFrom<i64>>(ids: &BTreeSet<T>, id: i64) -> bool {
    T::try_from(id).is_ok_and(|id| ids.contains(&id))
}
