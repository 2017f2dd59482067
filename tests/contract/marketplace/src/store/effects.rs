//! Rules for effects of consumers. The unique key of an effect contains the order and the business fact.

use std::sync::Arc;

use handover_contract::samples::{event_id, later, start, tenant};
use handover_contract::within;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, Numbered, StoreError};
use marketplace::ports::{
    EffectKind, ListedShipment, ListingChange, ListingChangeKind, ListingEntry, MarketStore, NewShipmentTask,
    Notification, OrderSide,
};
use marketplace_domain::{CreditOutcome, Order, OrderStatus, ShipmentState};
use tokio::sync::Barrier;

use super::{MarketRig, in_unit, view};
use crate::samples::{
    credit_change, listing_change, notification, order, order_id, product_id, shipment_task, user,
};

use ListingChangeKind::{Occupied, Released};
use OrderSide::{Buyer, Seller};

async fn change(rig: &dyn MarketRig, changes: &[ListingChange]) {
    in_unit!(rig, |unit| unit.change_listings(changes).await.expect("cannot change listings"));
}

async fn listing(rig: &dyn MarketRig) -> Vec<(i64, Option<i64>, String)> {
    let entries =
        view(rig).await.listing_of(TenantId::DEFAULT, user(20)).await.expect("cannot read a listing");
    let flat = |entry: ListingEntry| {
        (entry.product.get(), entry.taken_by.map(|order| order.get()), entry.event_id.into())
    };
    entries.into_iter().map(flat).collect()
}

fn entry(product: i64, taken_by: Option<i64>, event: &str) -> (i64, Option<i64>, String) {
    (product, taken_by, event.to_owned())
}

/// Changes are read as they were written, in the sequence in which they were applied.
pub async fn listing_changes_are_read_in_order_of_application(rig: &dyn MarketRig) {
    let changes = [
        ListingChange { aggregate_seq: 3, at: later(9), ..listing_change(1, 7, Released, "b") },
        ListingChange { at: later(1), ..listing_change(1, 7, Occupied, "a") },
    ];
    change(rig, &changes).await;
    change(rig, &[listing_change(3, 8, Occupied, "d")]).await;
    let seen = view(rig).await.listing_changes(TenantId::DEFAULT, &[order_id(7)]).await.unwrap();
    assert_eq!(seen, changes);
}

/// A second change of the same kind for one order is a conflict, with the same or another event.
pub async fn second_listing_change_of_fact_is_conflict(rig: &dyn MarketRig) {
    change(rig, &[listing_change(1, 7, Occupied, "a")]).await;
    for event in ["a", "b"] {
        let mut unit = rig.market().begin().await.unwrap();
        let second = unit.change_listings(&[listing_change(1, 7, Occupied, event)]).await;
        assert!(matches!(second, Err(StoreError::Conflict { .. })), "{event}: {second:?}");
    }
    let mut unit = rig.market().begin().await.unwrap();
    let twice = [listing_change(2, 8, Released, "c"), listing_change(2, 8, Released, "d")];
    let both = unit.change_listings(&twice).await;
    assert!(matches!(both, Err(StoreError::Conflict { .. })), "{both:?}");
    drop(unit);
    change(rig, &[listing_change(1, 7, Released, "e")]).await;
    assert_eq!(view(rig).await.listing_changes(TenantId::DEFAULT, &[order_id(7)]).await.unwrap().len(), 2);
}

pub async fn shipment_tasks_are_read_as_written(rig: &dyn MarketRig) {
    let task = NewShipmentTask { aggregate_seq: 9, at: later(9), ..shipment_task(7, "b") };
    in_unit!(rig, |unit| {
        unit.open_shipments(&[task.clone(), shipment_task(8, "c")]).await.unwrap();
        unit.open_shipments(&[]).await.unwrap();
    });
    let seen = view(rig).await.shipment_tasks(TenantId::DEFAULT, &[order_id(7)]).await.unwrap();
    assert_eq!(seen, [task]);
}

/// An order has at most one shipment task, regardless of the event.
pub async fn second_shipment_task_of_order_is_conflict(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.open_shipments(&[shipment_task(7, "a")]).await.unwrap());
    for event in ["a", "b"] {
        let mut unit = rig.market().begin().await.unwrap();
        let second = unit.open_shipments(&[shipment_task(7, event)]).await;
        assert!(matches!(second, Err(StoreError::Conflict { .. })), "{event}: {second:?}");
    }
    assert_eq!(view(rig).await.shipment_tasks(TenantId::DEFAULT, &[order_id(7)]).await.unwrap().len(), 1);
}

/// Effects are found by kind, tenant and orders, each with its fact and its event.
pub async fn effects_are_found_by_their_orders(rig: &dyn MarketRig) {
    change(rig, &[listing_change(1, 7, Occupied, "a"), listing_change(1, 7, Released, "b")]).await;
    change(rig, &[ListingChange { tenant: tenant(2), ..listing_change(1, 7, Occupied, "c") }]).await;
    in_unit!(rig, |unit| {
        unit.open_shipments(&[shipment_task(7, "d"), shipment_task(9, "e")]).await.unwrap();
        let seller = Notification { side: Seller, ..notification(7, 20, "f") };
        unit.notify(&[notification(7, 10, "f"), seller]).await.unwrap();
        unit.change_credit(&[credit_change(10, 8, CreditOutcome::Completed, "g")]).await.unwrap();
    });
    let mut view = view(rig).await;
    let orders = [order_id(7), order_id(8), order_id(9), order_id(9)];
    let mut found = Vec::new();
    for kind in EffectKind::ALL {
        let mut effects = view.effects_of(kind, TenantId::DEFAULT, &orders).await.unwrap();
        effects.sort();
        effects.dedup();
        found.extend(effects.into_iter().map(|it| (kind, it.order.get(), it.fact, it.event_id.to_string())));
    }
    let expected = [
        (EffectKind::ListingChange, 7, "OCCUPIED", "a"),
        (EffectKind::ListingChange, 7, "RELEASED", "b"),
        (EffectKind::Shipment, 7, "SHIPMENT", "d"),
        (EffectKind::Shipment, 9, "SHIPMENT", "e"),
        (EffectKind::Notification, 7, "shipped:buyer", "f"),
        (EffectKind::Notification, 7, "shipped:seller", "f"),
        (EffectKind::CreditChange, 8, "COMPLETED", "g"),
    ];
    let expected =
        expected.map(|(kind, order, fact, event)| (kind, order, fact.to_owned(), event.to_owned()));
    assert_eq!(found, expected);
    assert_eq!(view.effects_of(EffectKind::Shipment, tenant(2), &orders).await.unwrap(), []);
    assert_eq!(view.effects_of(EffectKind::Shipment, TenantId::DEFAULT, &[]).await.unwrap(), []);
}

/// Among the newest effects, those whose order does not exist in their tenant are found.
pub async fn effects_without_an_order_are_found(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| {
        unit.insert_order(&order(7)).await.unwrap();
        unit.open_shipments(&[shipment_task(7, "a"), shipment_task(8, "b"), shipment_task(9, "c")])
            .await
            .unwrap();
        let foreign = NewShipmentTask { tenant: tenant(2), ..shipment_task(7, "d") };
        unit.open_shipments(&[foreign]).await.unwrap();
    });
    let mut view = view(rig).await;
    let mut events = async |tenant, newest| -> Vec<String> {
        let found = view.effects_without_order(EffectKind::Shipment, tenant, newest).await.unwrap();
        found.into_iter().map(|effect| effect.event_id.into()).collect()
    };
    assert_eq!(events(None, 100).await, ["d", "c", "b"]);
    assert_eq!(events(Some(TenantId::DEFAULT), 100).await, ["c", "b"]);
    assert_eq!(events(None, 2).await, ["d", "c"]);
}

/// The listing changes of any number of products are returned sorted by product, and those of one product in the sequence
/// in which they were applied, without those of other products and tenants.
pub async fn listing_changes_are_found_by_their_products(rig: &dyn MarketRig) {
    // More products than an adapter may read with one statement. The orders of later products have smaller ids.
    let products = 150;
    let first =
        |product: i64| listing_change(product, 2 * products - product, Occupied, &format!("a{product}"));
    let second = |product: i64| listing_change(product, 1_000 + product, Occupied, &format!("b{product}"));
    let changes: Vec<_> =
        (1..=products).rev().flat_map(|product| [second(product), first(product)]).collect();
    change(rig, &changes).await;
    change(rig, &[ListingChange { tenant: tenant(2), ..listing_change(1, 7, Occupied, "foreign") }]).await;
    // The first product is named twice, and the last is not named.
    let asked: Vec<_> = [1].into_iter().chain((1..products).rev()).map(product_id).collect();
    let mut view = view(rig).await;
    let found = view.listing_changes_of_products(TenantId::DEFAULT, &asked).await.unwrap();
    let expected: Vec<_> = (1..products).flat_map(|product| [second(product), first(product)]).collect();
    assert_eq!(found, expected);
    let foreign = view.listing_changes_of_products(tenant(2), &asked).await.unwrap();
    assert_eq!(foreign.iter().map(|it| it.order).collect::<Vec<_>>(), [order_id(7)]);
    assert_eq!(view.listing_changes_of_products(TenantId::DEFAULT, &[]).await.unwrap(), []);
}

/// `Occupied` assigns the product to the order, even if another order had it.
pub async fn occupied_product_is_assigned_to_its_order(rig: &dyn MarketRig) {
    change(rig, &[ListingChange { at: later(4), ..listing_change(1, 7, Occupied, "a") }]).await;
    assert_eq!(listing(rig).await, [entry(1, Some(7), "a")]);
    let entries = view(rig).await.listing_of(TenantId::DEFAULT, user(20)).await.unwrap();
    assert_eq!(entries[0].update_time, later(4));
    change(rig, &[listing_change(1, 8, Occupied, "b")]).await;
    assert_eq!(listing(rig).await, [entry(1, Some(8), "b")]);
}

/// `Released` frees the product if it is assigned to that order.
pub async fn released_product_is_free(rig: &dyn MarketRig) {
    change(rig, &[listing_change(1, 7, Occupied, "a")]).await;
    change(rig, &[ListingChange { at: later(5), ..listing_change(1, 7, Released, "b") }]).await;
    let entries = view(rig).await.listing_of(TenantId::DEFAULT, user(20)).await.unwrap();
    let free = ListingEntry {
        product: product_id(1),
        taken_by: None,
        event_id: event_id("b"),
        update_time: later(5),
    };
    assert_eq!(entries, [free]);
}

/// A late release does not free a product that is assigned to another order.
pub async fn late_release_does_not_change_listing(rig: &dyn MarketRig) {
    change(rig, &[listing_change(1, 7, Occupied, "a"), listing_change(1, 8, Occupied, "b")]).await;
    change(rig, &[ListingChange { at: later(5), ..listing_change(1, 7, Released, "c") }]).await;
    let entries = view(rig).await.listing_of(TenantId::DEFAULT, user(20)).await.unwrap();
    let unchanged = ListingEntry {
        product: product_id(1),
        taken_by: Some(order_id(8)),
        event_id: event_id("b"),
        update_time: start(),
    };
    assert_eq!(entries, [unchanged]);
    assert_eq!(
        view(rig).await.listing_changes(TenantId::DEFAULT, &[order_id(7)]).await.unwrap().len(),
        2,
        "the late change must be recorded"
    );
}

pub async fn listing_changes_of_one_call_are_applied_in_order(rig: &dyn MarketRig) {
    change(
        rig,
        &[
            listing_change(1, 7, Occupied, "a"),
            listing_change(1, 7, Released, "b"),
            listing_change(1, 8, Occupied, "c"),
            listing_change(2, 9, Occupied, "d"),
            listing_change(2, 9, Released, "e"),
        ],
    )
    .await;
    change(rig, &[]).await;
    assert_eq!(listing(rig).await, [entry(1, Some(8), "c"), entry(2, None, "e")]);
}

/// The changes of a listing may be applied in any sequence, for example after a replay. Afterwards the product is
/// assigned to the order that occupied it and did not release it; without such an order it is free.
pub async fn listing_is_independent_of_order_of_changes(rig: &dyn MarketRig) {
    let changes = |product: i64| {
        [
            listing_change(product, product * 10 + 7, Occupied, &format!("a-{product}")),
            listing_change(product, product * 10 + 7, Released, &format!("b-{product}")),
            listing_change(product, product * 10 + 8, Occupied, &format!("c-{product}")),
        ]
    };
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (product, order) in (1..).zip(orders) {
        for index in order {
            change(rig, &[changes(product)[index].clone()]).await;
        }
        // Another product gets the same three changes: two in one call, the third in a second call.
        let product = product + 10;
        let [first, second, third] = order.map(|index| changes(product)[index].clone());
        change(rig, &[first, second]).await;
        change(rig, &[third]).await;
    }
    for (product, taken_by, event) in listing(rig).await {
        assert_eq!((taken_by, event), (Some(product * 10 + 8), format!("c-{product}")), "product {product}");
    }
    let late = [listing_change(30, 9, Released, "d"), listing_change(30, 9, Occupied, "e")];
    for late in late {
        change(rig, &[late]).await;
    }
    assert_eq!(
        listing(rig).await.last(),
        Some(&entry(30, None, "d")),
        "an order that released the product must not get it again"
    );
}

/// Concurrent units of work that change one listing lose no change, even if the listing has no row yet.
pub async fn concurrent_listing_changes_are_not_lost(rig: &dyn MarketRig) {
    async fn attempt(store: &MarketStore, changes: &[ListingChange]) -> Result<(), StoreError> {
        let mut unit = store.begin().await?;
        unit.change_listings(changes).await?;
        unit.commit().await
    }
    const ROUNDS: i64 = 8;
    for product in 1..=ROUNDS {
        let ended_order = [
            listing_change(product, product * 10 + 7, Occupied, &format!("a-{product}")),
            listing_change(product, product * 10 + 7, Released, &format!("b-{product}")),
        ];
        let active_order = [listing_change(product, product * 10 + 8, Occupied, &format!("c-{product}"))];
        let barrier = Arc::new(Barrier::new(2));
        let units = [ended_order.to_vec(), active_order.to_vec()].map(|changes| {
            let store = rig.market();
            let barrier = barrier.clone();
            tokio::spawn(async move {
                barrier.wait().await;
                loop {
                    match attempt(store.as_ref(), &changes).await {
                        Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                        outcome => return outcome,
                    }
                }
            })
        });
        for unit in units {
            within("a concurrent unit of work", unit)
                .await
                .expect("a concurrent unit of work panicked")
                .expect("cannot commit a concurrent unit of work");
        }
    }
    for (product, taken_by, event) in listing(rig).await {
        assert_eq!((taken_by, event), (Some(product * 10 + 8), format!("c-{product}")), "product {product}");
    }
}

/// A listing contains the products of one seller in one tenant, sorted by id; effects are visible in their tenant only.
pub async fn effects_are_isolated_by_tenant_and_seller(rig: &dyn MarketRig) {
    let foreign = ListingChange { tenant: tenant(2), ..listing_change(4, 7, Occupied, "foreign") };
    let other = ListingChange { seller: user(21), ..listing_change(5, 9, Occupied, "other") };
    change(
        rig,
        &[listing_change(9, 7, Occupied, "b"), listing_change(3, 8, Occupied, "a"), foreign.clone(), other],
    )
    .await;
    in_unit!(rig, |unit| {
        let foreign = NewShipmentTask { tenant: tenant(2), ..shipment_task(7, "foreign") };
        unit.open_shipments(&[foreign]).await.unwrap();
    });
    assert_eq!(listing(rig).await, [entry(3, Some(8), "a"), entry(9, Some(7), "b")]);
    let mut view = view(rig).await;
    assert_eq!(view.listing_of(tenant(2), user(20)).await.unwrap().len(), 1);
    assert_eq!(view.listing_of(tenant(2), user(21)).await.unwrap(), []);
    assert_eq!(view.listing_changes(tenant(2), &[order_id(7)]).await.unwrap(), [foreign]);
    assert_eq!(view.listing_changes(tenant(1), &[order_id(7)]).await.unwrap().len(), 1);
    assert_eq!(view.shipment_tasks(tenant(1), &[order_id(7)]).await.unwrap(), []);
    assert_eq!(view.shipment_tasks(tenant(2), &[order_id(7)]).await.unwrap().len(), 1);
}

/// A page of a listing contains one seller's products below the given id, greatest id first.
pub async fn listing_pages_are_ordered_by_descending_product(rig: &dyn MarketRig) {
    let all: Vec<_> = (1..=5).map(|product| listing_change(product, product, Occupied, "a")).collect();
    change(rig, &all).await;
    let other = ListingChange { seller: user(21), ..listing_change(9, 9, Occupied, "other") };
    let foreign = ListingChange { tenant: tenant(2), ..listing_change(8, 7, Occupied, "foreign") };
    change(rig, &[other, foreign]).await;
    let page = async |before: Option<i64>, limit| -> Vec<i64> {
        let mut view = view(rig).await;
        let before = before.map(product_id);
        let page = view.listings_page(TenantId::DEFAULT, user(20), before, limit).await.unwrap();
        page.iter().map(|entry| entry.product.get()).collect()
    };
    assert_eq!(page(None, 2).await, [5, 4]);
    assert_eq!(page(Some(4), 2).await, [3, 2]);
    assert_eq!(page(Some(2), 2).await, [1]);
    assert_eq!(page(Some(1), 2).await, Vec::<i64>::new());
}

/// A page contains the shipment tasks of one seller, or of one buyer, below the given id, newest first.
pub async fn shipment_pages_filter_by_seller_or_buyer(rig: &dyn MarketRig) {
    let swapped = NewShipmentTask { seller: user(10), buyer: user(20), ..shipment_task(4, "d") };
    let foreign = NewShipmentTask { tenant: tenant(2), ..shipment_task(5, "e") };
    let tasks = [shipment_task(1, "a"), shipment_task(2, "b"), shipment_task(3, "c"), swapped, foreign];
    in_unit!(rig, |unit| unit.open_shipments(&tasks).await.unwrap());
    let page = async |who: i64, side, before, limit| -> (Vec<i64>, Option<i64>) {
        let mut view = view(rig).await;
        let page =
            view.shipments_page(TenantId::DEFAULT, user(who), side, None, before, limit).await.unwrap();
        (page.iter().map(|row| row.effect.task.order.get()).collect(), page.last().map(|row| row.id))
    };
    let (first, next) = page(20, Seller, None, 2).await;
    assert_eq!(first, [3, 2]);
    let (second, next) = page(20, Seller, next, 2).await;
    assert_eq!(second, [1]);
    assert_eq!(page(20, Seller, next, 2).await, (Vec::new(), None));
    assert_eq!(page(20, Buyer, None, 9).await.0, [4]);
    assert_eq!(page(10, Buyer, None, 9).await.0, [3, 2, 1]);
    let mut view = view(rig).await;
    let page = view.shipments_page(tenant(2), user(20), Seller, None, None, 9).await.unwrap();
    assert_eq!(page.iter().map(|row| &row.effect.task).collect::<Vec<_>>(), [&tasks[4]]);
}

/// A shipment task is open until its order is shipped, cancelled or refunded; one without an order in its tenant is closed.
/// A page in one state contains every task in this state.
pub async fn shipment_pages_filter_by_state_of_order(rig: &dyn MarketRig) {
    let order_id_of =
        |status: OrderStatus| 1 + OrderStatus::ALL.iter().position(|it| *it == status).unwrap() as i64;
    let foreign = 7;
    let missing = 8;
    in_unit!(rig, |unit| {
        for status in OrderStatus::ALL {
            let placed = order(order_id_of(*status));
            unit.insert_order(&Order { status: *status, ..placed }).await.unwrap();
        }
        unit.insert_order(&Order { tenant: tenant(2), ..order(foreign) }).await.unwrap();
        let tasks: Vec<_> =
            (1..=missing).map(|order| shipment_task(order, &format!("event-{order}"))).collect();
        unit.open_shipments(&tasks).await.unwrap();
    });
    let page = async |state, limit| {
        let mut view = view(rig).await;
        let page =
            view.shipments_page(TenantId::DEFAULT, user(20), Seller, state, None, limit).await.unwrap();
        let listed = |row: Numbered<ListedShipment>| (row.effect.task.order.get(), row.effect.order_status);
        page.into_iter().map(listed).collect::<Vec<_>>()
    };
    let of_status = |status: &OrderStatus| (order_id_of(*status), Some(*status));
    let mut all: Vec<_> = OrderStatus::ALL.iter().map(of_status).collect();
    all.extend([(foreign, None), (missing, None)]);
    all.reverse();
    assert_eq!(page(None, 9).await, all);
    let is_open = |(_, status): &(i64, Option<OrderStatus>)| {
        matches!(status, Some(OrderStatus::Pending | OrderStatus::Paid))
    };
    let (open, closed): (Vec<_>, Vec<_>) = all.into_iter().partition(is_open);
    assert_eq!(page(Some(ShipmentState::Open), 2).await, open);
    assert_eq!(page(Some(ShipmentState::Closed), 9).await, closed);
    // A transition of the order closes the task at its commit.
    let paid = order(order_id_of(OrderStatus::Paid));
    let shipped = Order { status: OrderStatus::Shipped, version: 2, ..paid };
    in_unit!(rig, |unit| assert_eq!(unit.advance_order(&shipped).await.unwrap(), Changed::One));
    assert_eq!(page(Some(ShipmentState::Open), 9).await, [of_status(&OrderStatus::Pending)]);
    assert_eq!(page(Some(ShipmentState::Closed), 9).await.len(), closed.len() + 1);
}
