//! The marketplace.

use handover_contract::samples::{later, start, tenant};
use handover_events::TenantId;
use handover_outbox::ports::Store as _;
use marketplace::ports::{
    EffectKind, LedgerPosition, ListingChangeKind, OrderSide, PaymentFilter, RefundFilter,
};
use marketplace_contract::samples::{
    credit_change, listing_change, operation_key, order_id, order_moved_to, product_id, user,
};
use marketplace_domain::{Asset, CreditOutcome, OrderId, OrderStatus, Purse, RefundStatus};

use super::super::fill::ACTIVE;
use super::{Case, new_order, unit, view};

pub(super) const CASES: &[Case] = &[
    view!("an order", ["orders_pkey", "PRIMARY"], |view| view.order_by_id(TenantId::DEFAULT, order_id(7))),
    view!("orders", ["orders_pkey", "PRIMARY"], |view| view
        .orders_by_id(Some(TenantId::DEFAULT), &[order_id(7), order_id(8), order_id(ACTIVE)])),
    unit!("moving an order", ["orders_pkey", "PRIMARY"], |unit| async {
        let order = marketplace_contract::samples::order(7);
        unit.advance_order(&order_moved_to(&order, OrderStatus::Paid, later(1))).await
    }),
    view!("overdue orders", ["idx_orders_pending"], |view| view.orders_overdue(
        later(60),
        Some((later(-60), order_id(7))),
        100
    )),
    view!("shipped orders to complete", ["idx_orders_shipped"], |view| view.orders_shipped(
        later(60),
        Some((later(-60), order_id(7))),
        100
    )),
    view!("changed orders", ["idx_orders_updated"], |view| view.orders_changed(
        Some(TenantId::DEFAULT),
        later(-60),
        later(60),
        None,
        100
    )),
    // The index of tenant and id holds the same ids as the primary key.
    view!("products", ["products_pkey", "PRIMARY", "idx_products_tenant"], |view| view
        .products_by_id(TenantId::DEFAULT, &[product_id(7), product_id(8), product_id(ACTIVE)])),
    view!("listing changes of products", ["idx_listing_changes_product"], |view| view
        .listing_changes_of_products(TenantId::DEFAULT, &[product_id(7), product_id(8)])),
    view!("payments of an order", ["idx_payments_order"], |view| view
        .payments_of(TenantId::DEFAULT, &[order_id(7)])),
    view!("a page of the orders of a buyer", ["idx_orders_buyer"], |view| view.orders_page(
        TenantId::DEFAULT,
        user(1_007),
        OrderSide::Buyer,
        None,
        OrderId::try_from(ACTIVE).ok(),
        20
    )),
    view!("a page of the orders of a seller", ["idx_orders_seller"], |view| view.orders_page(
        TenantId::DEFAULT,
        user(2_007),
        OrderSide::Seller,
        None,
        OrderId::try_from(ACTIVE).ok(),
        20
    )),
    // Every product and refund is one of this tenant.
    view!(
        "a page of the products of a tenant",
        ["idx_products_tenant", "idx_products_page", "products_pkey", "PRIMARY"],
        |view| view.products_page(TenantId::DEFAULT, None, None, 20)
    ),
    view!("a page of coupons", ["idx_coupons_user"], |view| view.coupons_page(
        TenantId::DEFAULT,
        user(1_007),
        None,
        20
    )),
    view!("a page of notifications", ["idx_notifications_user"], |view| view.notifications_page(
        TenantId::DEFAULT,
        user(1_007),
        None,
        20
    )),
    view!(
        "a page of the shipments of a seller",
        ["idx_shipments_seller", "orders_pkey", "PRIMARY"],
        |view| { view.shipments_page(TenantId::DEFAULT, user(2_007), OrderSide::Seller, None, None, 20) }
    ),
    view!("a page of payments", ["payments_pkey", "PRIMARY"], |view| view.payments_page(
        PaymentFilter { tenant: Some(TenantId::DEFAULT), ..PaymentFilter::default() },
        None,
        20
    )),
    view!("a page of refunds", ["idx_refunds_tenant", "refunds_pkey"], |view| view.refunds_page(
        RefundFilter { tenant: Some(TenantId::DEFAULT), status: None },
        None,
        20
    )),
    view!(
        "a page of the refunds in processing of all tenants",
        ["idx_refunds_due", "idx_refunds_failed"],
        |view| view.refunds_page(
            RefundFilter { tenant: None, status: Some(RefundStatus::Processing) },
            None,
            20
        )
    ),
    view!("due refunds", ["idx_refunds_due"], |view| view.refunds_due(later(86_400), 100)),
    // The last index of refunds is in a plan of PostgreSQL for small tables, for money that buys nothing.
    view!(
        "number of open refunds",
        [
            "idx_refunds_due",
            "idx_refunds_failed",
            "uk_refunds_capture",
            "idx_refunds_order",
            "idx_refunds_invoice",
            "idx_refunds_tenant",
            "orders_pkey",
            "payments_pkey",
            "payment_captures_pkey",
            "refund_requests_pkey",
            "PRIMARY",
        ],
        |view| async { view.open_refunds().await.map(Some) }
    ),
    view!("expired coupons", ["idx_coupons_expiry"], |view| view.coupons_expired(later(60), None, 100)),
    view!("frozen holds", ["idx_holds_frozen"], |view| view.holds_frozen(later(60), None, 100)),
    unit!("locking holds", ["asset_holds_pkey", "PRIMARY"], |unit| unit.lock_holds(
        Asset::Wallet,
        &[(tenant(1), order_id(7)), (tenant(1), order_id(8)), (tenant(1), order_id(ACTIVE))]
    )),
    unit!("locking balances", ["asset_balances_pkey", "PRIMARY"], |unit| unit.lock_balances(
        Purse::Wallet,
        &[(tenant(1), user(ACTIVE)), (tenant(1), user(ACTIVE + 1))],
        start()
    )),
    view!("operations by their keys", ["uk_asset_operations"], |view| view
        .operations_by_key(TenantId::DEFAULT, &[operation_key("k-7"), operation_key("k-8")])),
    view!(
        "comparing operations with their entries",
        ["ledger_entries_pkey", "PRIMARY", "uk_ledger_entries", "uk_asset_operations"],
        |view| async {
            let from = LedgerPosition::Entries(1_000);
            view.compare_ledger(None, from, 100).await.map(|page| page.inconsistencies)
        }
    ),
    view!(
        "comparing balances with entries",
        ["asset_balances_pkey", "PRIMARY", "idx_ledger_account"],
        |view| async {
            let from = LedgerPosition::Balances(Some((TenantId::DEFAULT, Some(user(1_000)))));
            view.compare_ledger(None, from, 100).await.map(|page| page.inconsistencies)
        }
    ),
    view!("entries by their keys", ["uk_ledger_entries"], |view| view
        .entries_by_key(TenantId::DEFAULT, &[operation_key("k-7"), operation_key("k-8")])),
    view!("shipments of orders", ["uk_shipments"], |view| view.effects_of(
        EffectKind::Shipment,
        TenantId::DEFAULT,
        &[order_id(7), order_id(8), order_id(ACTIVE)]
    )),
    view!("listing changes of orders", ["uk_listing_changes"], |view| view.effects_of(
        EffectKind::ListingChange,
        TenantId::DEFAULT,
        &[order_id(7), order_id(8), order_id(ACTIVE)]
    )),
    view!("notifications of orders", ["uk_notifications"], |view| view.effects_of(
        EffectKind::Notification,
        TenantId::DEFAULT,
        &[order_id(7), order_id(8), order_id(ACTIVE)]
    )),
    view!("credit changes of orders", ["uk_credit_changes"], |view| view.effects_of(
        EffectKind::CreditChange,
        TenantId::DEFAULT,
        &[order_id(7), order_id(8), order_id(ACTIVE)]
    )),
    unit!("changing credit", ["buyer_credit_pkey", "PRIMARY", "uk_credit_changes"], |unit| unit
        .change_credit(&[credit_change(ACTIVE, new_order(), CreditOutcome::Completed, "sent-7")])),
    unit!("changing listings", ["idx_listing_changes_product", "listings_pkey", "PRIMARY"], |unit| unit
        .change_listings(&[
            listing_change(7, new_order(), ListingChangeKind::Occupied, "sent-7"),
            listing_change(8, new_order(), ListingChangeKind::Occupied, "sent-8")
        ])),
];
