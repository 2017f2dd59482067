//! Faults of products, orders and payments.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::*;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::super::{Fault, Faulty, Unit, Wraps, yield_to_others};

impl<U: MarketView + ?Sized> ProductQueriesWrapper for Faulty<U> {
    async fn products_by_id(
        &mut self,
        tenant: TenantId,
        ids: &[ProductId],
    ) -> Result<Vec<Product>, StoreError> {
        let ids = if self.has(Fault::OnlyFirstProductsAreFound) { &ids[..ids.len().min(128)] } else { ids };
        let mut found = self.inner().products_by_id(tenant, ids).await?;
        if self.has(Fault::ProductsByIdLeakToOtherTenants) && tenant != TenantId::DEFAULT {
            found.extend(self.inner().products_by_id(TenantId::DEFAULT, ids).await?);
        }
        Ok(found)
    }

    async fn newest_products(
        &mut self,
        tenant: Option<TenantId>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<Product>, StoreError> {
        let tenant = if self.has(Fault::NewestProductsLeakToOtherTenants) { None } else { tenant };
        self.inner().newest_products(tenant, before, limit).await
    }

    async fn products_page(
        &mut self,
        tenant: TenantId,
        status: Option<ProductStatus>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<Product>, StoreError> {
        let repeats = self.has(Fault::PagesRepeatLastRow);
        let before =
            before.map(|id| if repeats { ProductId::try_from(id.get() + 1).unwrap_or(id) } else { id });
        self.inner().products_page(tenant, status, before, limit).await
    }
}

impl ProductRepoWrapper for Unit {
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        if self.has(Fault::InsertIgnoresTakenIds)
            && self.inner().product_by_id(product.tenant, product.id).await?.is_some()
        {
            return Ok(());
        }
        if self.has(Fault::ProductsAreWrittenOutsideUnit) {
            let mut own = self.shared.inner.begin().await?;
            if let Err(error) = own.insert_product(product).await {
                self.failed = true;
                return Err(error);
            }
            own.commit().await?;
            yield_to_others().await;
            return Ok(());
        }
        if self.has(Fault::TitlesAreTrimmed) {
            let title =
                Title::try_from(product.title.as_str().trim().to_owned()).expect("cannot trim the title");
            return self.inner().insert_product(&Product { title, ..product.clone() }).await;
        }
        self.inner().insert_product(product).await
    }
}

impl<U: MarketView + ?Sized> OrderQueriesWrapper for Faulty<U> {
    async fn order_by_id(&mut self, tenant: TenantId, id: OrderId) -> Result<Option<Order>, StoreError> {
        let found = self.inner().order_by_id(tenant, id).await?;
        if found.is_none() && self.has(Fault::OrdersLeakToOtherTenants) {
            return self.inner().order_by_id(TenantId::DEFAULT, id).await;
        }
        Ok(found)
    }

    async fn orders_changed(
        &mut self,
        tenant: Option<TenantId>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        let tenant = if self.has(Fault::ChangedOrdersLeakToOtherTenants) { None } else { tenant };
        self.inner().orders_changed(tenant, since, until, after, limit).await
    }

    async fn orders_overdue(
        &mut self,
        created_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        let excludes_deadline = self.has(Fault::OverdueExcludesDeadline);
        let created_by = if excludes_deadline { created_by - TimeDelta::microseconds(1) } else { created_by };
        let after = after.filter(|_| !self.has(Fault::OverduePagesIgnoreCursor));
        self.inner().orders_overdue(created_by, after, limit).await
    }

    async fn orders_shipped(
        &mut self,
        shipped_by: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<DueOrder>, StoreError> {
        let excludes_limit = self.has(Fault::ShippedExcludesLimit);
        let shipped_by = if excludes_limit { shipped_by - TimeDelta::microseconds(1) } else { shipped_by };
        let after = after.filter(|_| !self.has(Fault::ShippedPagesIgnoreCursor));
        self.inner().orders_shipped(shipped_by, after, limit).await
    }
}

impl OrderRepoWrapper for Unit {
    async fn advance_order(&mut self, after: &Order) -> Result<Changed, StoreError> {
        while self.has(Fault::UpdatesIgnoreVersion)
            && let Some(now) = self.inner().order_by_id(after.tenant, after.id).await?
        {
            let blind = Order { version: now.version + 1, ..after.clone() };
            if self.inner().advance_order(&blind).await? == Changed::One {
                return Ok(Changed::One);
            }
        }
        self.inner().advance_order(after).await
    }
}

impl<U: MarketView + ?Sized> PaymentQueriesWrapper for Faulty<U> {
    async fn payments_page(
        &mut self,
        filter: PaymentFilter,
        before: Option<PaymentId>,
        limit: u32,
    ) -> Result<Vec<Payment>, StoreError> {
        let ignores_bound = self.has(Fault::PaymentPagesIgnoreBound);
        let filter = if ignores_bound { PaymentFilter { above_id: None, ..filter } } else { filter };
        let before = self.first_below(before.map(PaymentId::get));
        let before = before.and_then(|id| PaymentId::try_from(id).ok());
        self.inner().payments_page(filter, before, limit).await
    }

    async fn payments_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Payment>, StoreError> {
        let mut found = self.inner().payments_of(tenant, orders).await?;
        if self.has(Fault::PaymentsAreSortedByTime) {
            found.sort_by_key(|payment| (payment.update_time, std::cmp::Reverse(payment.id)));
        }
        Ok(found)
    }

    async fn capture_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Capture>, StoreError> {
        let found = self.inner().capture_by_transaction(transaction_id).await?;
        if found.is_none() && self.has(Fault::CapturesIgnoreCase) {
            return self.inner().capture_by_transaction(&transaction_id.to_uppercase()).await;
        }
        Ok(found)
    }
}

impl PaymentRepoWrapper for Unit {
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        if self.has(Fault::TakenReferencesAreIgnored)
            && let Some(reference) = payment.reference
            && self.inner().payment_by_reference(reference).await?.is_some_and(|other| other.id != payment.id)
        {
            return Ok(());
        }
        if self.has(Fault::SecondPaymentInProcessingIsIgnored) {
            self.serialize().await;
            if self.inner().payment_by_id(payment.id).await?.is_none()
                && let Some(order) = payment.of.order()
                && self.inner().payment_in_processing(payment.tenant, order).await?.is_some()
            {
                return Ok(());
            }
        }
        if let (Some(invoice), true) =
            (payment.of.invoice(), self.has(Fault::SecondPaymentOfInvoiceIsIgnored))
        {
            let existing = self.inner().payments_of_invoice(payment.tenant, invoice).await?.payments;
            if existing.iter().any(|other| other.status == PaymentStatus::Processing) {
                return Ok(());
            }
        }
        self.inner().insert_payment(payment).await
    }

    async fn insert_capture(&mut self, capture: &Capture) -> Result<(), StoreError> {
        if self.has(Fault::TakenCapturedTransactionsAreIgnored) {
            self.serialize().await;
            let taken = self.inner().capture_by_transaction(&capture.transaction_id).await?;
            if taken.is_some_and(|other| (other.payment, other.number) != (capture.payment, capture.number)) {
                return Ok(());
            }
        }
        self.inner().insert_capture(capture).await
    }

    async fn update_capture(&mut self, capture: &Capture) -> Result<Changed, StoreError> {
        let changed = self.inner().update_capture(capture).await?;
        Ok(if self.has(Fault::UpdatesOfMissingCapturesAreReported) { Changed::One } else { changed })
    }
}
