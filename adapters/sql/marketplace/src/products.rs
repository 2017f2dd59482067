//! Repository of products.

use std::collections::BTreeSet;

use crate::AmountFields;
use crate::session::{MarketSession, advance};
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Fields, LookUp, MAX_ROWS, Table, Value, padded, table, values};
use marketplace::ports::{END_OF_IDS, ProductQueries, ProductRepo};
use marketplace_domain::{Product, ProductId, ProductStatus, Title};

table! {
    ProductTable("products" by "id"), read row as Product, write product as &'a Product;
    insert { id: id("id" = product.id.get()), tenant: id("tenant_id" = product.tenant.get()) }
    update {
        seller: id("seller_id" = product.seller.get()),
        title: (title(row))("title" = product.title.as_str()),
        price: money("price_minor" = product.price.minor()),
        status: named("status" = product.status.as_str()),
        version: int("version" = product.version),
        create_time: time("create_time" = product.create_time),
        update_time: time("update_time" = product.update_time),
    }
}

const COLUMNS: &str = ProductTable::COLUMNS;

fn title(row: Fields<'_>) -> Result<Title, StoreError> {
    Title::try_from(row.string("title")?).map_err(|error| row.corrupt("title", error))
}

#[async_trait]
impl ProductQueries for MarketSession {
    async fn product_by_id(
        &mut self,
        tenant: TenantId,
        id: ProductId,
    ) -> Result<Option<Product>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM products WHERE id = ? AND tenant_id = ?");
        self.fetch_one(&sql, values![id.get(), tenant.get()])
            .await?
            .as_ref()
            .map(ProductTable::read)
            .transpose()
    }

    async fn products_by_id(
        &mut self,
        tenant: TenantId,
        ids: &[ProductId],
    ) -> Result<Vec<Product>, StoreError> {
        let ids: BTreeSet<i64> = ids.iter().map(|id| id.get()).collect();
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.into_iter().collect::<Vec<_>>().chunks(MAX_ROWS) {
            let (sql, values) = self.dialect().look_up(LookUp {
                columns: COLUMNS,
                from: "products".to_owned(),
                column: "id",
                keys: padded(ids).into_iter().map(Value::from).collect(),
                conditions: "tenant_id = ?".to_owned(),
                values: values![tenant.get()],
                ..LookUp::default()
            });
            for row in &self.fetch(&sql, values).await? {
                found.push(ProductTable::read(row)?);
            }
        }
        Ok(found)
    }

    async fn newest_products(
        &mut self,
        tenant: Option<TenantId>,
        before: Option<ProductId>,
        most: u32,
    ) -> Result<Vec<Product>, StoreError> {
        let mut sql = format!("SELECT {COLUMNS} FROM products WHERE id < ?");
        let mut values = values![before.map_or(i64::MAX, ProductId::get)];
        if let Some(tenant) = tenant {
            sql.push_str(" AND tenant_id = ?");
            values.push(tenant.get().into());
        }
        sql.push_str(" ORDER BY id DESC LIMIT ?");
        values.push(most.into());
        self.fetch(&sql, values).await?.iter().map(ProductTable::read).collect()
    }

    async fn products_page(
        &mut self,
        tenant: TenantId,
        status: Option<ProductStatus>,
        before: Option<ProductId>,
        most: u32,
    ) -> Result<Vec<Product>, StoreError> {
        let mut sql = format!("SELECT {COLUMNS} FROM products WHERE tenant_id = ? AND id < ?");
        let mut values = values![tenant.get(), before.map_or(END_OF_IDS, ProductId::get)];
        if let Some(status) = status {
            sql.push_str(" AND status = ?");
            values.push(status.as_str().into());
        }
        sql.push_str(" ORDER BY id DESC LIMIT ?");
        values.push(most.into());
        self.fetch(&sql, values).await?.iter().map(ProductTable::read).collect()
    }
}

#[async_trait]
impl ProductRepo for MarketSession {
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        self.insert_into::<ProductTable>(ProductTable::values(product), "").await
    }

    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError> {
        let updated = ProductTable::updated_values(after);
        advance::<ProductTable>(self, updated, after.tenant, after.id.get(), after.version - 1).await
    }
}
