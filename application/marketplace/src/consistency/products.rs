//! Comparison of products with the orders that occupy them.
//!
//! **Invariant:** a product is `sold` exactly while one order occupies it: an order that is neither cancelled nor
//! refunded. Order and product change in one unit of work.
//!
//! The orders of a product are found by its listing changes, which an index finds by product. An order whose listing
//! change is not applied yet is not found by them, so a product without an order is confirmed by the orders of its seller.
//!
//! A product is left out if one of these orders cannot be read: whether that order occupies it is not known.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{Order, OrderId, Product, ProductAction, ProductId, ProductStatus, UserId};
use tracing::warn;

use super::ReadableOrders;
use crate::ports::{MarketView, OrderSide, Work};
use handover_outbox::ports::StoreError;

/// Orders of a seller per page.
const SELLER_PAGE: u32 = 1_000;

/// A contradiction between a product and its orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProductMismatch {
    /// An order occupies the product, but the product is not `sold`, so that it may be sold twice. `None`: its row is
    /// missing.
    NotSold { order: OrderId, status: Option<ProductStatus> },
    /// More than one order occupies the product.
    SoldTwice { orders: Vec<OrderId> },
    /// The product is `sold`, but no order occupies it.
    SoldWithoutOrder,
}

/// A product with the orders that occupy it.
#[derive(Debug, Clone)]
struct Occupied {
    product: Option<Product>,
    orders: Vec<OrderId>,
}

type Found = (TenantId, ProductId, ProductMismatch);

/// Products with their known orders, by tenant.
type KnownOrders = BTreeMap<TenantId, BTreeMap<ProductId, Vec<OrderId>>>;

/// Comparison of the products of several pages of orders and products.
#[derive(Default)]
pub(crate) struct ProductScan {
    compared: BTreeSet<(TenantId, ProductId)>,
    /// Products that were left out because an order cannot be read.
    left_out: BTreeSet<ProductId>,
    /// Sold products without a known order, by seller.
    unexplained: BTreeMap<(TenantId, UserId), Vec<Product>>,
}

impl ProductScan {
    /// Compares the products of these orders.
    pub(crate) async fn compare_orders(
        &mut self,
        view: &mut dyn MarketView,
        orders: &[Order],
    ) -> Result<Vec<Found>, StoreError> {
        let mut products: KnownOrders = BTreeMap::new();
        for order in orders {
            let of_tenant = products.entry(order.tenant).or_default();
            of_tenant.entry(order.product).or_default().push(order.id);
        }
        self.compare(view, products).await
    }

    /// Compares these products with their orders.
    pub(crate) async fn compare_products(
        &mut self,
        view: &mut dyn MarketView,
        products: &[Product],
    ) -> Result<Vec<Found>, StoreError> {
        let mut by_tenant: KnownOrders = BTreeMap::new();
        for product in products {
            by_tenant.entry(product.tenant).or_default().insert(product.id, Vec::new());
        }
        self.compare(view, by_tenant).await
    }

    /// Compares products that were not compared before. After an error, none of them counts as compared.
    async fn compare(
        &mut self,
        view: &mut dyn MarketView,
        products: KnownOrders,
    ) -> Result<Vec<Found>, StoreError> {
        let mut compared = Vec::new();
        let mut found = Vec::new();
        let mut unexplained = Vec::new();
        for (tenant, mut products) in products {
            products.retain(|product, _| !self.compared.contains(&(tenant, *product)));
            compared.extend(products.keys().map(|product| (tenant, *product)));
            let mut suspects = self.read(view, tenant, &products).await?;
            suspects.retain(|_, occupied| occupied.mismatch().is_some());
            products.retain(|product, _| suspects.contains_key(product));
            // Second look: the product must be unchanged since the first look, whose orders were read in between.
            let again = self.read(view, tenant, &products).await?;
            for (id, occupied) in suspects {
                let is_unchanged = again.get(&id).is_some_and(|again| again.product == occupied.product);
                match (occupied.mismatch(), occupied.product) {
                    (Some(ProductMismatch::SoldWithoutOrder), Some(product)) if is_unchanged => {
                        unexplained.push(product);
                    }
                    (Some(mismatch), _) if is_unchanged => found.push((tenant, id, mismatch)),
                    (Some(_) | None, _) => {}
                }
            }
        }
        self.compared.extend(compared);
        for product in unexplained {
            self.unexplained.entry((product.tenant, product.seller)).or_default().push(product);
        }
        Ok(found)
    }

    /// Reads products and then the orders that occupy them.
    async fn read(
        &mut self,
        view: &mut dyn MarketView,
        tenant: TenantId,
        products: &BTreeMap<ProductId, Vec<OrderId>>,
    ) -> Result<BTreeMap<ProductId, Occupied>, StoreError> {
        let ids: Vec<ProductId> = products.keys().copied().collect();
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut read: BTreeMap<ProductId, Occupied> =
            ids.iter().map(|id| (*id, Occupied { product: None, orders: Vec::new() })).collect();
        for product in view.products_by_id(tenant, &ids).await? {
            if let Some(occupied) = read.get_mut(&product.id) {
                occupied.product = Some(product);
            }
        }
        let changes = view.listing_changes_of_products(tenant, &ids).await?;
        let mut products_of: BTreeMap<OrderId, BTreeSet<ProductId>> = BTreeMap::new();
        for (product, orders) in products {
            for order in orders {
                products_of.entry(*order).or_default().insert(*product);
            }
        }
        for change in changes {
            products_of.entry(change.order).or_default().insert(change.product);
        }
        let orders: Vec<OrderId> = products_of.keys().copied().collect();
        let ReadableOrders { orders, unreadable } = ReadableOrders::read(view, tenant, &orders).await?;
        for order in orders {
            if let Some(occupied) = read.get_mut(&order.product)
                && !order.status.frees_product()
            {
                occupied.orders.push(order.id);
            }
        }
        for (order, error) in unreadable {
            for product in products_of.remove(&order).unwrap_or_default() {
                read.remove(&product);
                self.leave_out(product, &error);
            }
        }
        Ok(read)
    }

    fn leave_out(&mut self, product: ProductId, error: &StoreError) {
        if self.left_out.insert(product) {
            warn!(code = "consistency.product-not-compared", %error, productId = %product,
                "[OrderAssetConsistency] an order cannot be read; its product is not compared");
        }
    }

    /// Ids of the products that were left out.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = i64> {
        self.left_out.iter().map(|product| product.get())
    }

    /// The sold products for which their seller has no order that occupies them. Reads the orders of these sellers once,
    /// newest first, until every product is explained.
    pub(crate) async fn without_order(
        &mut self,
        view: &mut dyn MarketView,
    ) -> Result<Vec<Found>, StoreError> {
        let mut found = Vec::new();
        for ((tenant, seller), products) in std::mem::take(&mut self.unexplained) {
            let ids: Vec<ProductId> = products.iter().map(|product| product.id).collect();
            match without_order_of(view, (tenant, seller), products).await {
                Ok(products) => found.extend(
                    products.into_iter().map(|it| (tenant, it.id, ProductMismatch::SoldWithoutOrder)),
                ),
                Err(error @ StoreError::Corrupt { .. }) => {
                    ids.into_iter().for_each(|id| self.leave_out(id, &error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// Those of these products for which their seller has no order that occupies them.
async fn without_order_of(
    view: &mut dyn MarketView,
    (tenant, seller): (TenantId, UserId),
    mut products: Vec<Product>,
) -> Result<Vec<Product>, StoreError> {
    let mut before = None;
    while !products.is_empty() {
        let page = view.orders_page(tenant, seller, OrderSide::Seller, None, before, SELLER_PAGE).await?;
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        let occupying = page.iter().filter(|order| !order.status.frees_product());
        let occupied: BTreeSet<ProductId> = occupying.map(|order| order.product).collect();
        products.retain(|product| !occupied.contains(&product.id));
    }
    // An order that was placed since changed its product too.
    let ids: Vec<ProductId> = products.iter().map(|product| product.id).collect();
    let current = view.products_by_id(tenant, &ids).await?;
    products.retain(|product| current.contains(product));
    Ok(products)
}

impl Occupied {
    fn mismatch(&self) -> Option<ProductMismatch> {
        let status = self.product.as_ref().map(|product| product.status);
        match self.orders.as_slice() {
            [] if status == Some(ProductStatus::Sold) => Some(ProductMismatch::SoldWithoutOrder),
            [] => None,
            [order, ..] if status != Some(ProductStatus::Sold) => {
                Some(ProductMismatch::NotSold { order: *order, status })
            }
            [_] => None,
            [_, _, ..] => {
                let mut orders = self.orders.clone();
                orders.sort_unstable();
                Some(ProductMismatch::SoldTwice { orders })
            }
        }
    }
}

impl ProductMismatch {
    /// Description for operators.
    pub(crate) fn describe(&self, product: ProductId) -> String {
        match self {
            ProductMismatch::NotSold { order, status: Some(status) } => {
                format!("product {product} of order {order} is {status}, so that it may be sold twice")
            }
            ProductMismatch::NotSold { order, status: None } => {
                format!("product {product} of order {order} does not exist")
            }
            ProductMismatch::SoldTwice { orders } => {
                let orders: Vec<String> = orders.iter().map(ToString::to_string).collect();
                format!(
                    "product {product} is sold to more than one order: {}; cancel or refund all but one",
                    orders.join(", ")
                )
            }
            ProductMismatch::SoldWithoutOrder => format!(
                "product {product} is sold, but no order occupies it: an order is missing, or the product was not \
                 put on sale again"
            ),
        }
    }

    /// The order that the finding is about; the newest one if there are several.
    pub(crate) fn order(&self) -> Option<OrderId> {
        match self {
            ProductMismatch::NotSold { order, .. } => Some(*order),
            ProductMismatch::SoldTwice { orders } => orders.last().copied(),
            ProductMismatch::SoldWithoutOrder => None,
        }
    }
}

/// Marks the product of an order `sold` if the order occupies it. Returns whether the product was changed.
///
/// The order is read after its product: an order that occupies a product which is not `sold` cannot be cancelled or
/// refunded, because that releases the product. So the order still occupies the product when the conditional write
/// succeeds.
pub(crate) async fn occupy_product(
    unit: &mut Work,
    order: &Order,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let Some(mut product) = unit.product_by_id(order.tenant, order.product).await? else { return Ok(false) };
    let current = unit.order_by_id(order.tenant, order.id).await?;
    if current.is_none_or(|order| order.status.frees_product()) {
        return Ok(false);
    }
    let steps: &[ProductAction] = match product.status {
        ProductStatus::OnSale => &[ProductAction::Occupy],
        ProductStatus::OffShelf => &[ProductAction::OnShelf, ProductAction::Occupy],
        ProductStatus::Sold => &[],
    };
    for step in steps {
        let Ok(next) = product.apply(*step, now) else { return Ok(false) };
        unit.advance_product(&next).await?.or_conflict("product")?;
        product = next;
    }
    Ok(!steps.is_empty())
}
