//! Products.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_memory::store::tables::{Row, below};
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{ProductQueries, ProductRepo};
use marketplace_domain::{Product, ProductId, ProductStatus};

use crate::tables::{Lock, Market, MarketRows as _};
use crate::unit::MarketUnit;

#[derive(Default)]
pub(crate) struct ProductIndex {
    by_tenant: BTreeMap<TenantId, BTreeSet<ProductId>>,
}

impl Row<Market> for Product {
    type Key = ProductId;
    type Index = ProductIndex;

    fn key(&self) -> ProductId {
        self.id
    }

    fn enter(&self, index: &mut ProductIndex) {
        index.by_tenant.entry(self.tenant).or_default().insert(self.id);
    }

    fn leave(&self, index: &mut ProductIndex) {
        if let Some(ids) = index.by_tenant.get_mut(&self.tenant) {
            ids.remove(&self.id);
        }
    }
}

#[async_trait]
impl ProductQueries for MarketUnit {
    async fn product_by_id(
        &mut self,
        tenant: TenantId,
        id: ProductId,
    ) -> Result<Option<Product>, StoreError> {
        self.read(|statement| {
            statement.products().get(&id).filter(|product| product.tenant == tenant).cloned()
        })
        .await
    }

    async fn products_by_id(
        &mut self,
        tenant: TenantId,
        ids: &[ProductId],
    ) -> Result<Vec<Product>, StoreError> {
        let ids: BTreeSet<ProductId> = ids.iter().copied().collect();
        self.read(|statement| {
            let products = statement.products();
            let found = ids.iter().filter_map(|id| products.get(id));
            found.filter(|product| product.tenant == tenant).cloned().collect()
        })
        .await
    }

    async fn newest_products(
        &mut self,
        tenant: Option<TenantId>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<Product>, StoreError> {
        self.read(|statement| {
            let newest_first = statement.products().select(|table| {
                let end = before.map_or(Bound::Unbounded, Bound::Excluded);
                let below = table.rows().range((Bound::Unbounded, end));
                below.rev().map(|(id, product)| (Reverse(*id), product))
            });
            let of_tenant = newest_first.filter(|product| tenant.is_none_or(|it| product.tenant == it));
            of_tenant.take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn products_page(
        &mut self,
        tenant: TenantId,
        status: Option<ProductStatus>,
        before: Option<ProductId>,
        limit: u32,
    ) -> Result<Vec<Product>, StoreError> {
        self.read(|statement| {
            let products = statement.products();
            let page = products.select(|table| {
                let ids =
                    table.index.by_tenant.get(&tenant).into_iter().flat_map(move |ids| below(ids, before));
                ids.filter_map(|id| Some((Reverse(*id), table.get(id)?)))
            });
            page.filter(|product| status.is_none_or(|status| product.status == status))
                .take(limited(limit))
                .cloned()
                .collect()
        })
        .await
    }
}

#[async_trait]
impl ProductRepo for MarketUnit {
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        self.write(vec![Lock::Product(product.id)], |statement| {
            if statement.products().get(&product.id).is_some() {
                return Err(conflict(format!("products.id {}", product.id)));
            }
            statement.own.products.put(product.clone());
            Ok(())
        })
        .await
    }

    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError> {
        self.write(vec![Lock::Product(after.id)], |statement| {
            let before = statement.products().get(&after.id).map(|before| (before.tenant, before.version));
            if before != Some((after.tenant, after.version - 1)) {
                return Ok(Changed::None);
            }
            statement.own.products.put(after.clone());
            Ok(Changed::One)
        })
        .await
    }
}
