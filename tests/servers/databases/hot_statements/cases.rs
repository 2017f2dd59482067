//! The frequent statements, grouped by the port that runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::TryFutureExt as _;
use handover_contract::samples::webhooks::{claim, dead_deliveries, endpoint_id, endpoint_key, settled};
use handover_contract::samples::{
    BOOK, BOOK_LENT, BOOK_RETURNED, aggregate, confirmed, consumption, dead_letter, due_at, event, event_id,
    later, partition, redrive, relay, start, tenant, to_retry, unordered,
};
use handover_events::{ConsumeStatus, OutboxStatus, Partition, PartitionSet, TenantId};
use handover_outbox::ports::{
    AfterAttempt, AheadQuery, AuditFilter, ConsumedFilter, DeadLetterFilter, DeadLetterStatus,
    DeliveryFilter, DeliveryState, DueQuery, EndpointHealth, EventGroup, Expected, MaskedTexts, NewEvent,
    OldDeliveries, OnFailed, OutboxFilter, OwnedPartition, Store as _, StoreError, WebhookClaim,
};
use marketplace::ports::{EffectKind, FindingFilter, LedgerPosition, ListingChangeKind};
use marketplace_contract::samples::{
    credit_change, listing_change, operation_key, order_id, order_moved_to, product_id, user,
};
use marketplace_domain::{Asset, CreditOutcome, OrderStatus, Purse};
use marketplace_sql::SqlMarket;

use super::fill::{ACTIVE, CONSUMER};

/// One statement, or several statements that belong together.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Allowed indexes. The primary key is named PRIMARY on MariaDB.
    pub(super) indexes: &'static [&'static str],
    /// Runs the statement. Returns the number of returned rows.
    pub(super) run: for<'s> fn(&'s SqlMarket) -> Pin<Box<dyn Future<Output = usize> + Send + 's>>,
}

/// Primary key of the types that processes have registered for a consumer, on PostgreSQL.
const REGISTERED_TYPES: &str = "outbox_consumer_types_pkey";

/// A read outside a transaction.
macro_rules! view {
    ($name:literal, $indexes:expr, |$view:ident| $read:expr) => {
        Case {
            name: $name,
            indexes: &$indexes,
            run: |store| {
                Box::pin(async move {
                    let mut $view = store.view().await.unwrap();
                    $read.await.unwrap().into_iter().count()
                })
            },
        }
    };
}

/// Statements of a unit of work. On empty tables they fail with a conflict, and the unit of work is not committed.
macro_rules! unit {
    ($name:literal, $indexes:expr, |$unit:ident| $work:expr) => {
        Case {
            name: $name,
            indexes: &$indexes,
            run: |store| {
                Box::pin(async move {
                    let mut $unit = store.begin().await.unwrap();
                    if $work.await.is_ok() {
                        $unit.commit().await.unwrap();
                    }
                    0
                })
            },
        }
    };
}

/// Returns the id of an order that has no effects yet: a second effect of the same fact would be a conflict.
fn new_order() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(ACTIVE + 1_000);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

const WEBHOOKS: [&str; 9] = [
    "idx_webhook_endpoints_status",
    "webhook_endpoints_pkey",
    "webhook_deliveries_pkey",
    "PRIMARY",
    "idx_webhook_deliveries_due",
    "idx_webhook_deliveries_claimed",
    "idx_webhook_deliveries_order",
    "idx_webhook_deliveries_dead",
    "uk_webhook_deliveries",
];

const DUE: [&str; 6] = [
    "idx_outbox_pending",
    "idx_status_time",
    "idx_outbox_waiting",
    "idx_outbox_failed",
    "idx_outbox_order",
    "outbox_events_pkey",
];

const NUMBERED: [&str; 7] = [
    "outbox_sequences_pkey",
    "PRIMARY",
    "idx_aggregate",
    "idx_outbox_order",
    "uk_event_id",
    "uk_outbox_archived",
    "idx_outbox_archived",
];

const ERASURE: [&str; 9] = [
    "uk_event_id",
    "idx_outbox_history",
    "idx_consume_event",
    "uk_consumer_event",
    "uk_dead_letter",
    "idx_dead_letters_key",
    "webhook_deliveries_pkey",
    "PRIMARY",
    "idx_webhook_attempts_delivery",
];

/// What masks the texts about an event that has this delivery.
fn masked(id: &str, delivery: i64) -> MaskedTexts {
    MaskedTexts {
        event_id: event_id(id),
        payload: "{}".to_owned(),
        payload_hash: String::new(),
        dead_letters: vec![("a.queue".to_owned(), "{}".to_owned())],
        deliveries: vec![(delivery, "{}".to_owned())],
    }
}

pub(super) const CASES: &[Case] = &[
    view!("due rows", DUE, |view| view
        .outbox_view()
        .outbox_due(&DueQuery { limit: 200, ..due_at(later(60)) })
        .map_ok(|due| due.rows)),
    view!("due rows from the low-water mark", DUE, |view| view
        .outbox_view()
        .outbox_due(&DueQuery { limit: 200, from_id: 9, ..due_at(later(60)) })
        .map_ok(|due| due.rows)),
    view!("due rows behind failed rows with `hold`", DUE, |view| view
        .outbox_view()
        .outbox_due(&DueQuery { on_failed: OnFailed::Hold, limit: 200, ..due_at(later(60)) })
        .map_ok(|due| due.rows)),
    view!("due rows behind a backlog", DUE, |view| view
        .outbox_view()
        .outbox_ahead(&AheadQuery {
            due: DueQuery { limit: 100, from_id: 9, on_failed: OnFailed::Hold, ..due_at(later(60)) },
            except: BTreeSet::from([
                EventGroup::Tenant(tenant(2)),
                EventGroup::Type("RESERVED".to_owned()),
                EventGroup::TenantAndType(tenant(3), "RETURNED".to_owned()),
            ]),
            max_read: 5_000,
        })
        .map_ok(|ahead| ahead.rows)),
    view!("next due time", DUE, |view| view
        .outbox_view()
        .outbox_due(&DueQuery { partitions: PartitionSet::EMPTY, ..due_at(later(60)) })
        .map_ok(|due| due.next)),
    view!("backlog", ["idx_outbox_pending", "idx_outbox_failed", "idx_status_time"], |view| view
        .outbox_view()
        .outbox_backlog(later(60))
        .map_ok(|backlog| backlog.oldest_due)),
    view!("most retries", ["idx_status_time", "idx_consume_open"], |view| view
        .outbox_view()
        .most_retries()
        .map_ok(Some)),
    view!("rows of events", ["uk_event_id"], |view| view.outbox_view().outbox_by_event(&[
        event_id("due"),
        event_id("sent-7"),
        event_id("sent-8")
    ])),
    view!("archived events", ["uk_outbox_archived", "idx_outbox_archived"], |view| async {
        let archived = view.outbox_view().archived_by_event(&[event_id("due"), event_id("sent-7")]).await?;
        let about = view.outbox_view().archived_about(&[aggregate(ACTIVE), aggregate(7)]).await?;
        Ok::<_, StoreError>(archived.into_iter().chain(about).collect::<Vec<_>>())
    }),
    view!("a page of archived events", ["outbox_archived_events_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .archived_page(
            &OutboxFilter { tenant: Some(TenantId::DEFAULT), ..OutboxFilter::default() },
            None,
            100
        )),
    view!("a page of the archived events of an aggregate", ["idx_outbox_archived"], |view| view
        .outbox_view()
        .archived_page(
            &OutboxFilter {
                aggregate_type: Some(aggregate(7).kind),
                aggregate_id: Some(aggregate(7).id),
                ..OutboxFilter::default()
            },
            None,
            100
        )),
    view!("stored values of events", ["uk_event_id", "idx_consume_event", "uk_consumer_event"], |view| view
        .outbox_view()
        .stored_events(&[event_id("sent-7"), event_id("sent-8")])),
    view!("rows about aggregates", ["idx_aggregate"], |view| view.outbox_view().outbox_about(&[
        aggregate(ACTIVE),
        aggregate(7),
        aggregate(8)
    ])),
    view!("blocked aggregates", ["idx_outbox_failed", "idx_outbox_order", "idx_status_time"], |view| view
        .outbox_view()
        .blocked_page(&unordered(), Some(TenantId::DEFAULT), None, 100)),
    view!(
        "waiting aggregates",
        ["idx_outbox_pending", "idx_outbox_order", "idx_outbox_failed", "idx_status_time"],
        |view| view.outbox_view().waiting_page(
            &unordered(),
            OnFailed::Hold,
            Some(TenantId::DEFAULT),
            later(60),
            None,
            100
        )
    ),
    view!("a page of failed rows", ["idx_status_time", "idx_outbox_failed"], |view| view
        .outbox_view()
        .outbox_page(
            &OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() },
            None,
            100
        )),
    view!("a page of the events of a type", ["outbox_events_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .outbox_page(
            &OutboxFilter { event_type: Some(BOOK_LENT.to_owned()), ..OutboxFilter::default() },
            None,
            100
        )),
    view!("a page of the events of a rare type", ["outbox_events_pkey", "PRIMARY"], |view| async {
        let rows = view.outbox_view();
        let newest = rows.outbox_page(&OutboxFilter::default(), None, 1).await?;
        let rare = OutboxFilter {
            event_type: Some("BOOK_LOST".to_owned()),
            above_id: newest.first().map(|row| row.id - 100),
            ..OutboxFilter::default()
        };
        rows.outbox_page(&rare, None, 100).await
    }),
    view!("a page of the events of an aggregate id", ["idx_aggregate"], |view| view
        .outbox_view()
        .outbox_page(
            &OutboxFilter { aggregate_id: Some(7.into()), ..OutboxFilter::default() },
            Some(i64::MAX),
            100
        )),
    view!("a page of the sent events of an aggregate", ["idx_aggregate"], |view| view
        .outbox_view()
        .outbox_page(
            &OutboxFilter {
                aggregate_type: Some(BOOK.to_owned()),
                aggregate_id: Some(7.into()),
                status: Some(OutboxStatus::Sent),
                ..OutboxFilter::default()
            },
            None,
            100
        )),
    // Not committed: the rows of one aggregate would delay the other cases.
    unit!("append of an event that the store numbers, and its row", NUMBERED, |unit| async {
        let new = NewEvent { aggregate_seq: None, ..event(&format!("numbered-{}", new_order()), ACTIVE, 1) };
        unit.outbox().append(std::slice::from_ref(&new)).await?;
        unit.outbox().outbox_by_event(&[new.event_id]).await?;
        Err::<(), _>(StoreError::Conflict { what: "the end of the case".to_owned() })
    }),
    unit!("marking as sent", ["uk_event_id"], |unit| async {
        let sent = [confirmed("sent-7"), confirmed("sent-8"), confirmed("no-such")];
        unit.outbox().mark_sent(&sent.iter().collect::<Vec<_>>(), start()).await
    }),
    unit!(
        "marking as sent behind the fence",
        ["uk_event_id", "outbox_partitions_pkey", "PRIMARY"],
        |unit| async {
            let holds: Vec<OwnedPartition> =
                Partition::all().map(|partition| OwnedPartition { partition, epoch: 1 }).collect();
            let sent = BTreeMap::from([(partition(7), vec![confirmed("sent-7"), confirmed("sent-8")])]);
            unit.outbox().mark_sent_if_owned(&relay("r"), &holds, &sent, start()).await
        }
    ),
    unit!("marking as failed", ["uk_event_id"], |unit| unit
        .outbox()
        .mark_failed(&[to_retry("waiting", Some(later(3_600))), to_retry("sent-8", None)], start())),
    unit!("bringing retries forward", ["idx_status_time"], |unit| unit.outbox().bring_retries_forward(
        PartitionSet::ALL,
        later(7_200),
        start()
    )),
    view!("the history of events", ["idx_outbox_history"], |view| view
        .outbox_view()
        .history_of(&[event_id("sent-7"), event_id("sent-8")])),
    unit!("redriving", ["uk_event_id"], |unit| unit
        .outbox()
        .redrive(&[redrive("sent-9", later(3_600)), redrive("no-such", later(3_600))], start())),
    unit!("releasing an aggregate", ["idx_outbox_failed", "idx_outbox_order"], |unit| unit.outbox().release(
        &aggregate(12),
        &unordered(),
        start()
    )),
    view!("unapplied rows", ["idx_aggregate", "uk_consumer_event", REGISTERED_TYPES], |view| view
        .outbox_view()
        .unapplied(
            CONSUMER,
            &[BOOK_LENT, BOOK_RETURNED],
            0,
            &[aggregate(ACTIVE), aggregate(7), aggregate(8), aggregate(9)]
        )),
    view!("a consume-log record", ["uk_consumer_event"], |view| view
        .outbox_view()
        .consumption(CONSUMER, &event_id("sent-7"))),
    unit!("updating a consume-log record", ["uk_consumer_event"], |unit| async {
        let mut retried = consumption(CONSUMER, &event("due", ACTIVE, 1));
        retried.expected = Expected::At(ConsumeStatus::Failed, 1);
        retried.status = ConsumeStatus::Failed;
        retried.next_retry_time = Some(start());
        unit.outbox().record(&[retried]).await
    }),
    view!("records without a delivery", ["idx_consume_unsettled"], |view| view
        .outbox_view()
        .stale_consumptions(CONSUMER, &[BOOK_RETURNED], later(60), later(60), 100)),
    view!(
        "events that were never delivered",
        ["idx_outbox_sent", "uk_consumer_event", REGISTERED_TYPES],
        |view| view.outbox_view().unconsumed_events(CONSUMER, &[BOOK_LENT], 0, later(-60), later(60), 100)
    ),
    view!("records of events", ["idx_consume_event", "uk_consumer_event"], |view| view
        .outbox_view()
        .consumed_of(&[event_id("sent-7"), event_id("sent-8"), event_id("due")])),
    view!("a page of dead events", ["idx_consume_open"], |view| view.outbox_view().consumed_page(
        &ConsumedFilter {
            tenant: Some(TenantId::DEFAULT),
            status: Some(ConsumeStatus::Dead),
            ..ConsumedFilter::default()
        },
        None,
        100
    )),
    view!("a page of the records of an event", ["idx_consume_event", "uk_consumer_event"], |view| view
        .outbox_view()
        .consumed_page(
            &ConsumedFilter {
                tenant: Some(TenantId::DEFAULT),
                event_id: Some(event_id("sent-7")),
                consumer: Some(CONSUMER.to_owned()),
                ..ConsumedFilter::default()
            },
            None,
            100
        )),
    view!("a page of the records of a consumer", ["event_consume_log_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .consumed_page(
            &ConsumedFilter { consumer: Some(CONSUMER.to_owned()), ..ConsumedFilter::default() },
            None,
            100
        )),
    view!("a page of the records of a rare consumer", ["event_consume_log_pkey", "PRIMARY"], |view| async {
        let log = view.outbox_view();
        let newest = log.consumed_page(&ConsumedFilter::default(), None, 1).await?;
        let rare = ConsumedFilter {
            consumer: Some("audit".to_owned()),
            above_id: newest.first().map(|row| row.id - 100),
            ..ConsumedFilter::default()
        };
        log.consumed_page(&rare, None, 100).await
    }),
    view!("open dead letters", ["idx_dead_letters_undecided"], |view| view.outbox_view().dead_letters_page(
        &DeadLetterFilter {
            tenant: Some(TenantId::DEFAULT),
            status: Some(DeadLetterStatus::Open),
            ..DeadLetterFilter::default()
        },
        None,
        100
    )),
    view!("dead letters of keys", ["idx_dead_letters_key", "uk_dead_letter"], |view| view
        .outbox_view()
        .dead_letters_of(&["dead".to_owned(), "sent-7".to_owned()])),
    view!("number of undecided dead letters", ["idx_dead_letters_undecided"], |view| async {
        view.outbox_view().undecided_dead_letters(Some(TenantId::DEFAULT)).await.map(Some)
    }),
    unit!("parking dead letters", ["uk_dead_letter", "idx_dead_letters_key"], |unit| unit
        .outbox()
        .park(&[dead_letter("a.queue", "dead"), dead_letter("a.queue", "dead-too")])),
    unit!("attempts at webhooks", WEBHOOKS, |unit| async {
        // The claims end at once, so that the next run claims the same deliveries.
        let request = WebhookClaim { until: later(60), ..claim("claim", later(60)) };
        let outbox = unit.outbox();
        let claimed = outbox.claim_webhook_deliveries(&request).await?;
        let results: Vec<_> = claimed.iter().map(|claimed| settled(claimed, AfterAttempt::Dead)).collect();
        outbox.settle_webhook_deliveries(&results).await?;
        for number in 1..=3 {
            outbox.resend_webhook_deliveries(&dead_deliveries(number), start(), 100).await?;
        }
        outbox.claim_webhook_deliveries(&request).await
    }),
    unit!(
        "deleting old deliveries",
        ["webhook_deliveries_pkey", "PRIMARY", "uk_webhook_deliveries"],
        |unit| async {
            let old = OldDeliveries { after: 0, before: start(), limit: 100 };
            unit.outbox().delete_webhook_deliveries(&old).await.map(|_| None::<()>)
        }
    ),
    unit!(
        "deleting old audit entries of reads",
        ["idx_outbox_audit_reads", "outbox_audit_log_pkey", "PRIMARY"],
        |unit| async { unit.outbox().delete_audit_reads(start(), 50).await.map(|_| None::<()>) }
    ),
    view!("endpoints of tenants", ["uk_webhook_endpoints_slot"], |view| view
        .outbox_view()
        .webhook_endpoints(&[TenantId::DEFAULT, tenant(2)])),
    view!(
        "a page of deliveries",
        ["idx_webhook_deliveries_endpoint", "webhook_deliveries_pkey"],
        |view| async {
            let all = DeliveryFilter::default();
            view.outbox_view().webhook_deliveries_page(endpoint_key(1), &all, None, 100).await
        }
    ),
    view!("a page of dead deliveries", ["idx_webhook_deliveries_dead"], |view| async {
        let dead = DeliveryFilter { state: Some(DeliveryState::Dead), ..DeliveryFilter::default() };
        view.outbox_view().webhook_deliveries_page(endpoint_key(1), &dead, None, 100).await
    }),
    view!("number of dead deliveries that can be sent again", WEBHOOKS, |view| async {
        view.outbox_view().count_dead_webhook_deliveries(&dead_deliveries(1), 100).await.map(Some)
    }),
    view!("health of endpoints", ["webhook_endpoints_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .webhook_health(&[endpoint_id(1), endpoint_id(2)])),
    view!("deliveries of events", ["uk_webhook_deliveries"], |view| view
        .outbox_view()
        .webhook_deliveries_of(&[event_id("due"), event_id("sent-7")])),
    view!("an endpoint", ["webhook_endpoints_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .webhook_endpoint(Some(TenantId::DEFAULT), endpoint_id(1))),
    unit!(
        "locking an endpoint and setting its health",
        ["webhook_endpoints_pkey", "PRIMARY"],
        |unit| async {
            let outbox = unit.outbox();
            outbox.lock_webhook_endpoint(Some(TenantId::DEFAULT), endpoint_id(1)).await?;
            outbox.set_webhook_health(endpoint_key(1), &EndpointHealth::default()).await
        }
    ),
    view!("a delivery", ["webhook_deliveries_pkey", "PRIMARY", "idx_webhook_deliveries_endpoint"], |view| {
        view.outbox_view().webhook_delivery(endpoint_key(1), 7)
    }),
    view!(
        "attempts at a delivery",
        [
            "idx_webhook_attempts_delivery",
            "webhook_deliveries_pkey",
            "PRIMARY",
            "idx_webhook_deliveries_endpoint"
        ],
        |view| view.outbox_view().webhook_attempts(endpoint_key(1), 7)
    ),
    view!(
        "number of attempts at an endpoint",
        ["idx_webhook_attempts_endpoint", "webhook_endpoints_pkey", "PRIMARY"],
        |view| async {
            view.outbox_view().webhook_attempt_counts(endpoint_key(2), later(-60)).await.map(Some)
        }
    ),
    view!("number of deliveries", WEBHOOKS, |view| async {
        view.outbox_view().webhook_counts(later(60)).await.map(Some)
    }),
    view!("an order", ["orders_pkey", "PRIMARY"], |view| view.order_by_id(TenantId::DEFAULT, order_id(7))),
    view!("orders", ["orders_pkey", "PRIMARY"], |view| view
        .orders_by_id(Some(TenantId::DEFAULT), &[order_id(7), order_id(8), order_id(ACTIVE)])),
    unit!("moving an order", ["orders_pkey", "PRIMARY"], |unit| async {
        let order = marketplace_contract::samples::order(7);
        unit.advance_order(&order_moved_to(&order, OrderStatus::Paid, later(1))).await
    }),
    view!("overdue orders", ["idx_orders_pending"], |view| view.orders_overdue(later(60), 100)),
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
    view!("due refunds", ["idx_refunds_due"], |view| view.refunds_due(later(86_400), 100)),
    view!("number of open refunds", ["idx_refunds_due", "idx_refunds_failed"], |view| async {
        view.open_refunds().await.map(Some)
    }),
    view!("expired coupons", ["idx_coupons_expiry"], |view| view.coupons_expired(later(60), 100)),
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
    // The pages of an erasure, which reads these tables completely: the bound of each statement is that of one page.
    view!("a page of the audit log", ["outbox_audit_log_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .audit_page(&AuditFilter::default(), None, 500)),
    view!("a page of the files of the archive", ["outbox_archive_files_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .archive_files(Some(5_000), 500)),
    view!("a page of the products of all tenants", ["products_pkey", "PRIMARY"], |view| view
        .newest_products(None, None, 200)),
    view!("a page of stored responses", ["idempotency_keys_pkey", "PRIMARY"], |view| view
        .stored_responses(Some(100), 200)),
    view!("a page of findings", ["reconciliation_findings_pkey", "PRIMARY"], |view| view.findings_page(
        FindingFilter::default(),
        None,
        200
    )),
    unit!("masking the texts of events", ERASURE, |unit| unit
        .outbox()
        .erase_events(&[masked("sent-7", 7), masked("sent-8", 8)], start())),
    unit!("masking the reasons of audit entries", ["outbox_audit_log_pkey", "PRIMARY"], |unit| unit
        .outbox()
        .erase_audit_reasons(&[7, 8, 9])),
    unit!("masking titles", ["products_pkey", "PRIMARY", "idx_products_tenant"], |unit| unit
        .erase_titles(TenantId::DEFAULT, &[product_id(7), product_id(8)])),
    unit!(
        "masking the texts of orders",
        ["orders_pkey", "PRIMARY", "idx_payments_order", "idx_refunds_order", "idx_gateway_reports_order"],
        |unit| unit.erase_order_texts(TenantId::DEFAULT, &[order_id(7), order_id(8)])
    ),
    unit!("masking the reasons of findings", ["reconciliation_findings_pkey", "PRIMARY"], |unit| unit
        .erase_finding_reasons(&[7, 8])),
    unit!("removing expired keys", ["idx_idempotency_expire", "idempotency_keys_pkey", "PRIMARY"], |unit| {
        unit.delete_expired_requests(later(60), 100)
    }),
];
