//! The outbox, the archive, and operators' statements on them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryFutureExt as _;
use handover_contract::samples::{
    BOOK, BOOK_LENT, aggregate, confirmed, due_at, event, event_id, later, partition, redrive, relay, start,
    tenant, to_retry, unordered,
};
use handover_events::{OutboxStatus, Partition, PartitionSet, TenantId};
use handover_outbox::ports::Store as _;
use handover_outbox::ports::{
    AheadQuery, DueQuery, EventGroup, NewEvent, OnFailed, OutboxFilter, OwnedPartition, ReceivedEvent,
    StoreError,
};

use super::super::fill::ACTIVE;
use super::{Case, new_order, unit, view};

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

const COUNTED: [&str; 5] =
    ["idx_outbox_pending", "idx_outbox_order", "idx_status_time", "outbox_events_pkey", "PRIMARY"];

pub(super) const CASES: &[Case] = &[
    view!("due rows", DUE, |view| view
        .outbox_view()
        .outbox_due(&DueQuery { limit: 200, ..due_at(later(60)) })
        .map_ok(|due| due.rows)),
    view!("due rows from the low-water mark", DUE, |view| view
        .outbox_view()
        .outbox_due(&DueQuery { limit: 200, from_id: 9, ..due_at(later(60)) })
        .map_ok(|due| due.rows)),
    view!("due ids of a slice", DUE, |view| view
        .outbox_view()
        .outbox_due_ids(&DueQuery { limit: 200, from_id: 9, ..due_at(later(60)) }, i64::MAX)
        .map_ok(Some)),
    view!("due rows besides those in flight", DUE, |view| view
        .outbox_view()
        .outbox_due(&DueQuery {
            limit: 200,
            in_flight: (1..=200).chain([300, 400]).collect(),
            ..due_at(later(60))
        })
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
    view!("backlog", ["idx_outbox_pending"], |view| view
        .outbox_view()
        .outbox_backlog(9..i64::MAX, later(60))
        .map_ok(|backlog| backlog.oldest_due)),
    view!("unreleased failed rows", ["idx_outbox_failed", "idx_status_time"], |view| view
        .outbox_view()
        .unreleased_failed_rows()
        .map_ok(Some)),
    view!("counts of the outbox", COUNTED, |view| view.outbox_view().outbox_counts(None, 100).map_ok(Some)),
    view!("counts of the outbox of a tenant", COUNTED, |view| view
        .outbox_view()
        .outbox_counts(Some(TenantId::DEFAULT), 100)
        .map_ok(Some)),
    // PostgreSQL may know from its statistics that few events are pending.
    view!("most retries", ["idx_status_time", "idx_outbox_order", "idx_consume_open"], |view| view
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
            above_id: Some(newest.first().map_or(0, |row| row.id - 50)),
            ..OutboxFilter::default()
        };
        rows.outbox_page(&rare, None, 100).await
    }),
    view!("redrive of sent events of a rare type", ["outbox_events_pkey", "PRIMARY"], |view| async {
        let rows = view.outbox_view();
        let oldest = rows.outbox_after(&OutboxFilter::default(), None, 1).await?;
        let rare = OutboxFilter {
            status: Some(OutboxStatus::Sent),
            event_type: Some("BOOK_LOST".to_owned()),
            below_id: oldest.first().map(|row| row.id + 100),
            ..OutboxFilter::default()
        };
        rows.outbox_after(&rare, None, 10_001).await
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
    // Not committed: the large tables are filled later, with the row that exists.
    unit!(
        "reception of events, one of which exists",
        ["uk_event_id", "uk_outbox_archived", "idx_outbox_archived", "PRIMARY"],
        |unit| async {
            let received = |id: String| {
                let event = event(&id, 7, 1);
                ReceivedEvent {
                    event_id: event.event_id,
                    event_type: event.event_type,
                    aggregate: event.aggregate,
                    aggregate_seq: 1,
                    payload: event.payload,
                    metadata: event.metadata,
                    occurred_at: start(),
                    received_at: start(),
                    max_retry_count: event.max_retry_count,
                    routing_key: None,
                }
            };
            let events = [received("sent-7".to_owned()), received(format!("received-{}", new_order()))];
            unit.outbox().receive(&events).await?;
            Err::<(), _>(StoreError::Conflict { what: "the end of the case".to_owned() })
        }
    ),
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
];
