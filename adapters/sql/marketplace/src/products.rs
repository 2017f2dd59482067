//! Repository of products.

use std::collections::BTreeSet;

use crate::money;
use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{LookUp, MAX_ROWS, Row, Value, padded, values};
use marketplace::ports::{END_OF_IDS, ProductQueries, ProductRepo};
use marketplace_domain::{Product, ProductId, ProductStatus, Title};

const COLUMNS: &str =
    "id, tenant_id, seller_id, title, price_minor, status, version, create_time, update_time";

fn product(row: &Row) -> Result<Product, StoreError> {
    let row = row.of("products", "id");
    Ok(Product {
        id: row.id("id")?,
        tenant: row.id("tenant_id")?,
        seller: row.id("seller_id")?,
        title: Title::try_from(row.string("title")?).map_err(|error| row.corrupt("title", error))?,
        price: money(&row, "price_minor")?,
        status: row.named("status")?,
        version: row.int("version")?,
        create_time: row.time("create_time")?,
        update_time: row.time("update_time")?,
    })
}

/// The values of the [`COLUMNS`] that follow id and tenant.
fn state_values(product: &Product) -> Vec<Value> {
    values![
        product.seller.get(),
        product.title.as_str(),
        product.price.minor(),
        product.status.as_str(),
        product.version,
        product.create_time,
        product.update_time,
    ]
}

#[async_trait]
impl ProductQueries for MarketSession {
    async fn product_by_id(
        &mut self,
        tenant: TenantId,
        id: ProductId,
    ) -> Result<Option<Product>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM products WHERE id = ? AND tenant_id = ?");
        self.fetch_one(&sql, values![id.get(), tenant.get()]).await?.as_ref().map(product).transpose()
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
                found.push(product(row)?);
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
        self.fetch(&sql, values).await?.iter().map(product).collect()
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
        self.fetch(&sql, values).await?.iter().map(product).collect()
    }
}

#[async_trait]
impl ProductRepo for MarketSession {
    async fn insert_product(&mut self, product: &Product) -> Result<(), StoreError> {
        let values = [values![product.id.get(), product.tenant.get()], state_values(product)].concat();
        self.insert(&format!("INSERT INTO products ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }

    async fn advance_product(&mut self, after: &Product) -> Result<Changed, StoreError> {
        let sql = "UPDATE products SET seller_id = ?, title = ?, price_minor = ?, status = ?, version = ?, \
                   create_time = ?, update_time = ? WHERE id = ? AND tenant_id = ? AND version = ?";
        let values =
            [state_values(after), values![after.id.get(), after.tenant.get(), after.version - 1]].concat();
        Ok(Changed::of(self.execute(sql, values).await?))
    }
}
