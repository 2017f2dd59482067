//! Rules for products.

use handover_contract::samples::{SPECIAL_CHARACTERS, later, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId};
use marketplace_domain::{Money, Product, ProductAction, ProductStatus};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{product, product_id, title, user};

async fn add(rig: &dyn MarketRig, products: &[Product]) {
    in_unit!(rig, |unit| {
        for product in products {
            unit.insert_product(product).await.expect("cannot insert a product");
        }
    });
}

async fn stored(rig: &dyn MarketRig, id: i64) -> Option<Product> {
    view(rig).await.product_by_id(TenantId::DEFAULT, product_id(id)).await.expect("cannot read a product")
}

fn numbers(products: Vec<Product>) -> Vec<i64> {
    products.into_iter().map(|product| product.id.get()).collect()
}

/// A product is read as it was written, with unusual titles, in every status, and with extreme prices and ids.
pub async fn product_is_read_as_written(rig: &dyn MarketRig) {
    let titles = [
        SPECIAL_CHARACTERS.to_owned(),
        "二".repeat(120),
        "📷".repeat(120),
        " padded ".into(),
        "e\u{301}".into(),
    ];
    for (n, text) in titles.iter().enumerate() {
        let written = Product { title: title(text), ..product(n as i64 + 1) };
        add(rig, std::slice::from_ref(&written)).await;
        assert_eq!(stored(rig, n as i64 + 1).await, Some(written));
    }
    for (n, status) in ProductStatus::ALL.iter().enumerate() {
        let written = Product { status: *status, version: 1 + n as i64, ..product(n as i64 + 20) };
        add(rig, std::slice::from_ref(&written)).await;
        assert_eq!(stored(rig, n as i64 + 20).await, Some(written));
    }
    let greatest = Product {
        price: Money::from_minor(MAX_ID).unwrap(),
        seller: user(MAX_ID),
        create_time: later(-1_000_000_000),
        ..product(MAX_ID)
    };
    add(rig, &[greatest.clone(), Product { price: Money::ZERO, ..product(30) }]).await;
    assert_eq!(stored(rig, MAX_ID).await, Some(greatest));
    assert_eq!(stored(rig, 30).await.map(|product| product.price), Some(Money::ZERO));
    assert_eq!(stored(rig, 31).await, None);
}

/// A duplicate id is a conflict, even in another tenant.
pub async fn duplicate_product_id_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[product(1)]).await;
    is_conflict(begin(rig).await.insert_product(&Product { title: title("another"), ..product(1) }).await);
    is_conflict(begin(rig).await.insert_product(&Product { tenant: tenant(2), ..product(1) }).await);
    assert_eq!(stored(rig, 1).await, Some(product(1)));
}

/// A product is replaced only if its stored version is one less than the new version.
pub async fn product_advances_only_from_previous_version(rig: &dyn MarketRig) {
    add(rig, &[product(1), product(2)]).await;
    let sold = product(1).apply(ProductAction::Occupy, later(1)).unwrap();
    in_unit!(rig, |unit| changes_one(unit.advance_product(&sold).await));
    assert_eq!(stored(rig, 1).await.as_ref(), Some(&sold));
    assert_eq!(stored(rig, 2).await, Some(product(2)), "other rows must be unchanged");
    for version in [1, 2, 4] {
        in_unit!(rig, |unit| changes_none(unit.advance_product(&Product { version, ..product(1) }).await));
    }
    in_unit!(rig, |unit| changes_none(unit.advance_product(&Product { version: 2, ..product(3) }).await));
    assert_eq!(stored(rig, 1).await, Some(sold));
    assert_eq!(stored(rig, 3).await, None, "a missing row must not be inserted");
}

/// Advancing replaces the whole row, not only the status.
pub async fn advance_of_product_replaces_row(rig: &dyn MarketRig) {
    add(rig, &[product(1)]).await;
    let after = Product {
        title: title(SPECIAL_CHARACTERS),
        price: Money::from_minor(1).unwrap(),
        status: ProductStatus::OffShelf,
        version: 2,
        update_time: later(9),
        ..product(1)
    };
    in_unit!(rig, |unit| changes_one(unit.advance_product(&after).await));
    assert_eq!(stored(rig, 1).await, Some(after));
}

/// A product cannot be read or changed in another tenant.
pub async fn product_is_isolated_by_tenant(rig: &dyn MarketRig) {
    add(rig, &[product(1), Product { tenant: tenant(2), ..product(2) }]).await;
    let mut view = view(rig).await;
    assert_eq!(view.product_by_id(tenant(2), product_id(1)).await.unwrap(), None);
    assert_eq!(numbers(view.products_page(tenant(1), None, None, 10).await.unwrap()), [1]);
    assert_eq!(numbers(view.products_page(tenant(2), None, None, 10).await.unwrap()), [2]);
    assert_eq!(numbers(view.products_page(tenant(3), None, None, 10).await.unwrap()), [0; 0]);
    let foreign = Product { tenant: tenant(2), version: 2, status: ProductStatus::Sold, ..product(1) };
    in_unit!(rig, |unit| changes_none(unit.advance_product(&foreign).await));
    assert_eq!(stored(rig, 1).await, Some(product(1)));
}

/// A page contains the products below the given id, greatest id first.
pub async fn product_pages_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    add(rig, &[3, 1, 10, 2, 7].map(product)).await;
    let mut view = view(rig).await;
    let mut page = async |before: Option<i64>, limit| {
        numbers(view.products_page(TenantId::DEFAULT, None, before.map(product_id), limit).await.unwrap())
    };
    assert_eq!(page(None, 2).await, [10, 7]);
    assert_eq!(page(Some(7), 2).await, [3, 2]);
    assert_eq!(page(Some(2), 2).await, [1]);
    assert_eq!(page(Some(1), 2).await, [0; 0]);
    assert_eq!(page(Some(9), 2).await, [7, 3], "the bound need not be an existing id");
    assert_eq!(page(None, 100).await, [10, 7, 3, 2, 1]);
}

/// A page filtered by status contains only that status, up to the limit.
pub async fn product_pages_filter_by_status(rig: &dyn MarketRig) {
    let all: Vec<_> = (1..=9)
        .zip(ProductStatus::ALL.iter().cycle())
        .map(|(id, status)| Product { status: *status, ..product(id) })
        .collect();
    add(rig, &all).await;
    let mut view = view(rig).await;
    for status in ProductStatus::ALL {
        let page = view.products_page(TenantId::DEFAULT, Some(*status), None, 2).await.unwrap();
        assert_eq!(page.len(), 2);
        assert!(page.iter().all(|product| product.status == *status));
        let rest =
            view.products_page(TenantId::DEFAULT, Some(*status), page.last().map(|p| p.id), 2).await.unwrap();
        assert_eq!(rest.len(), 1);
    }
}

/// Products are found by their ids in their tenant, in any status and sequence; an id may be named twice.
pub async fn products_are_found_by_ids_in_tenant(rig: &dyn MarketRig) {
    let foreign = Product { tenant: tenant(2), ..product(3) };
    let sold = Product { status: ProductStatus::Sold, ..product(2) };
    add(rig, &[product(1), sold.clone(), foreign.clone(), product(4)]).await;
    let mut view = view(rig).await;
    let mut find = async |of: i64, ids: &[i64]| {
        let ids: Vec<_> = ids.iter().map(|id| product_id(*id)).collect();
        let mut found = view.products_by_id(tenant(of), &ids).await.unwrap();
        found.sort_by_key(|product| product.id);
        found
    };
    assert_eq!(find(1, &[3, 2, 9, 1, 2]).await, [product(1), sold]);
    assert_eq!(find(2, &[1, 2, 3, 4]).await, [foreign]);
    assert_eq!(find(1, &[]).await, []);
}

/// More products than an adapter may read with one statement are returned once each.
pub async fn many_products_are_found_by_ids(rig: &dyn MarketRig) {
    let all: Vec<Product> = (1..=300).map(product).collect();
    add(rig, &all).await;
    let ids: Vec<_> = all.iter().rev().map(|product| product.id).collect();
    let mut found = view(rig).await.products_by_id(TenantId::DEFAULT, &ids).await.unwrap();
    found.sort_by_key(|product| product.id);
    assert_eq!(found, all);
}

/// The newest products of one tenant or of all tenants, in every status, are returned greatest id first.
pub async fn newest_products_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    let mut all = [3, 1, 10, 2, 7].map(product);
    all[0].status = ProductStatus::Sold;
    all[1].status = ProductStatus::OffShelf;
    all[4].tenant = tenant(2);
    add(rig, &all).await;
    let mut view = view(rig).await;
    let mut page = async |of: Option<i64>, before: Option<i64>, limit| {
        numbers(view.newest_products(of.map(tenant), before.map(product_id), limit).await.unwrap())
    };
    assert_eq!(page(None, None, 2).await, [10, 7]);
    assert_eq!(page(None, Some(7), 2).await, [3, 2]);
    assert_eq!(page(None, Some(2), 2).await, [1]);
    assert_eq!(page(None, Some(1), 2).await, [0; 0]);
    assert_eq!(page(Some(1), None, 9).await, [10, 3, 2, 1]);
    assert_eq!(page(Some(1), Some(9), 2).await, [3, 2], "the bound need not be an existing id");
    assert_eq!(page(Some(2), None, 9).await, [7]);
    assert_eq!(page(Some(3), None, 9).await, [0; 0]);
}
