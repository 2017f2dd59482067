//! The consume log and the dead letters.

use handover_contract::samples::{
    BOOK_LENT, BOOK_RETURNED, aggregate, consumption, dead_letter, event, event_id, later, start, tenant,
};
use handover_events::{ConsumeStatus, TenantId};
use handover_outbox::ports::Store as _;
use handover_outbox::ports::{ConsumedFilter, DeadLetterFilter, DeadLetterStatus, Expected};

use super::super::fill::{ACTIVE, CONSUMER};
use super::{Case, unit, view};

/// Primary key of the types that processes have registered for a consumer, on PostgreSQL.
const REGISTERED_TYPES: &str = "outbox_consumer_types_pkey";

const COUNTED: [&str; 3] = ["idx_consume_open", "event_consume_log_pkey", "PRIMARY"];

pub(super) const CASES: &[Case] = &[
    view!("unapplied rows", ["idx_aggregate", "uk_consumer_event", REGISTERED_TYPES], |view| view
        .outbox_view()
        .unapplied(
            CONSUMER,
            &[BOOK_LENT, BOOK_RETURNED],
            0,
            &[aggregate(ACTIVE), aggregate(7), aggregate(8), aggregate(9)]
        )),
    view!(
        "unapplied rows from a position",
        ["idx_aggregate_order", "uk_consumer_event", REGISTERED_TYPES],
        |view| view.outbox_view().unapplied_from(
            CONSUMER,
            &[BOOK_LENT, BOOK_RETURNED],
            0,
            &[(aggregate(ACTIVE), 64)],
            100
        )
    ),
    view!(
        "unapplied rows of several aggregates",
        ["idx_aggregate_order", "uk_consumer_event", REGISTERED_TYPES],
        |view| view.outbox_view().unapplied_from(
            CONSUMER,
            &[BOOK_LENT, BOOK_RETURNED],
            0,
            &[(aggregate(ACTIVE), 64), (aggregate(7), 100), (aggregate(8), 64), (aggregate(9), 900)],
            100
        )
    ),
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
            above_id: Some(newest.first().map_or(0, |row| row.id - 50)),
            ..ConsumedFilter::default()
        };
        log.consumed_page(&rare, None, 100).await
    }),
    view!("counts of the log", COUNTED, |view| async {
        view.outbox_view().consume_counts(None, 100).await.map(Some)
    }),
    view!("counts of the log of a tenant", COUNTED, |view| async {
        view.outbox_view().consume_counts(Some(TenantId::DEFAULT), 100).await.map(Some)
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
    view!("the oldest open dead letters", ["idx_dead_letters_undecided"], |view| view
        .outbox_view()
        .dead_letters_after(
            &DeadLetterFilter {
                tenant: Some(TenantId::DEFAULT),
                status: Some(DeadLetterStatus::Open),
                ..DeadLetterFilter::default()
            },
            None,
            100
        )),
    view!(
        "dead letters of a tenant without any",
        ["idx_dead_letters_tenant", "idx_dead_letters_undecided"],
        |view| {
            async {
                let of_tenant = DeadLetterFilter { tenant: Some(tenant(9)), ..DeadLetterFilter::default() };
                view.outbox_view().dead_letters_page(&of_tenant, None, 100).await
            }
        }
    ),
    view!("a page of the open dead letters of all tenants", ["idx_dead_letters_undecided"], |view| view
        .outbox_view()
        .dead_letters_page(
            &DeadLetterFilter { status: Some(DeadLetterStatus::Open), ..DeadLetterFilter::default() },
            None,
            100
        )),
    view!("the oldest open dead letters of all tenants", ["idx_dead_letters_undecided"], |view| view
        .outbox_view()
        .dead_letters_after(
            &DeadLetterFilter { status: Some(DeadLetterStatus::Open), ..DeadLetterFilter::default() },
            None,
            100
        )),
    view!("a page of the dead letters of a queue", ["dead_letters_pkey", "PRIMARY"], |view| async {
        let dead_letters = view.outbox_view();
        let newest = dead_letters.dead_letters_page(&DeadLetterFilter::default(), None, 1).await?;
        let discarded = DeadLetterFilter {
            queue: Some("a.queue".to_owned()),
            status: Some(DeadLetterStatus::Discarded),
            above_id: Some(newest.first().map_or(0, |row| row.id - 50)),
            to: Some(start()),
            ..DeadLetterFilter::default()
        };
        let of_tenant = DeadLetterFilter { tenant: Some(TenantId::DEFAULT), ..discarded.clone() };
        dead_letters.dead_letters_page(&of_tenant, None, 100).await?;
        dead_letters.dead_letters_page(&discarded, None, 100).await
    }),
    view!("dead letters of keys", ["idx_dead_letters_key", "uk_dead_letter"], |view| view
        .outbox_view()
        .dead_letters_of(&["dead".to_owned(), "sent-7".to_owned()])),
    view!("number of undecided dead letters", ["idx_dead_letters_undecided"], |view| async {
        view.outbox_view().undecided_dead_letters(Some(TenantId::DEFAULT)).await.map(Some)
    }),
    unit!("parking dead letters", ["uk_dead_letter", "idx_dead_letters_key"], |unit| unit
        .outbox()
        .park(&[dead_letter("a.queue", "dead"), dead_letter("a.queue", "dead-too")])),
];
