//! Strategies for queries.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::ports::{DeadLetterStatus, OnFailed};
use marketplace::ports::OrderSide;
use marketplace_domain::{OrderStatus, ProductStatus, ShipmentState};

use super::{
    CONSUMERS, EVENTS, KEYS, KINDS, QUEUES, Query, Small, TYPES, at, event_type, limit, one_of, small, some,
    tenant,
};

pub(super) fn outbox_query() -> impl Strategy<Value = Query> {
    let partitions = || prop_oneof![Just((1..=3_i64).collect::<Vec<_>>()), vec(small(), 0..=2)];
    let on_failed = select(&[OnFailed::Continue, OnFailed::Hold][..]);
    prop_oneof![
        6 => (partitions(), at(), on_failed, limit())
            .prop_map(|(partitions, at, on_failed, limit)| Query::Due { partitions, at, on_failed, limit }),
        1 => vec(one_of(&EVENTS), 0..=3).prop_map(Query::ByEvent),
        2 => (some(tenant()), some(select(OutboxStatus::ALL)), some(small()), some(at()), some(at()), 0..=3_usize, limit())
            .prop_map(|(tenant, status, aggregate, from, to, skip, limit)| Query::Page {
                tenant, status, aggregate, from, to, skip, limit
            }),
        1 => vec((tenant(), one_of(&KINDS), small()), 0..=3).prop_map(Query::About),
        2 => (some(tenant()), 0..=2_usize, limit())
            .prop_map(|(tenant, skip, limit)| Query::Blocked { tenant, skip, limit }),
        1 => some(tenant()).prop_map(Query::OutboxCounts),
        1 => at().prop_map(|at| Query::Backlog { at }),
    ]
}

pub(super) fn consume_query() -> impl Strategy<Value = Query> {
    let types = || vec(event_type(), 0..=3);
    let aggregates = vec((tenant(), one_of(&KINDS), small()), 0..=3);
    prop_oneof![
        (one_of(&CONSUMERS), one_of(&EVENTS))
            .prop_map(|(consumer, event)| Query::Consumption(consumer, event)),
        (one_of(&CONSUMERS), types(), at(), aggregates).prop_map(|(consumer, types, skip, aggregates)| {
            Query::Unapplied { consumer, types, skip, aggregates }
        }),
        (one_of(&CONSUMERS), at(), at(), limit()).prop_map(|(consumer, idle_since, now, limit)| {
            Query::Leftovers { consumer, idle_since, now, limit }
        }),
        (one_of(&CONSUMERS), types(), at(), at(), at(), limit()).prop_map(
            |(consumer, types, skip, after, until, limit)| Query::Unseen {
                consumer,
                types,
                skip,
                after,
                until,
                limit
            }
        ),
        one_of(&CONSUMERS).prop_map(Query::Subscription),
        (
            some(tenant()),
            proptest::option::weighted(0.2, one_of(&EVENTS)),
            some(one_of(&CONSUMERS)),
            some(select(ConsumeStatus::ALL)),
            0..=3_usize,
            limit()
        )
            .prop_map(|(tenant, event, consumer, status, skip, limit)| Query::Consumed {
                tenant,
                event,
                consumer,
                status,
                skip,
                limit
            }),
        vec(one_of(&EVENTS), 0..=3).prop_map(Query::ConsumedOf),
        vec(one_of(&EVENTS), 0..=3).prop_map(Query::HistoryOf),
        some(tenant()).prop_map(Query::ConsumeCounts),
    ]
}

pub(super) fn other_query() -> impl Strategy<Value = Query> {
    let side = select(&[OrderSide::Buyer, OrderSide::Seller][..]);
    prop_oneof![
        (tenant(), small()).prop_map(|(tenant, id)| Query::Product(tenant, id)),
        (tenant(), some(select(ProductStatus::ALL)), some(1..=4_i64), limit())
            .prop_map(|(tenant, status, before, limit)| Query::Products { tenant, status, before, limit }),
        (tenant(), small()).prop_map(|(tenant, id)| Query::Order(tenant, id)),
        (tenant(), small(), 1..=20_i64).prop_map(|(tenant, id, user)| Query::OrderOfParty(tenant, id, user)),
        (
            tenant(),
            prop_oneof![small(), Just(20)],
            side,
            some(select(OrderStatus::ALL)),
            some(1..=4_i64),
            limit()
        )
            .prop_map(|(tenant, user, side, status, before, limit)| Query::Orders {
                tenant,
                user,
                side,
                status,
                before,
                limit
            }),
        (at(), some((at(), small())), limit()).prop_map(|(by, after, limit)| Query::Overdue {
            by,
            after,
            limit
        }),
        (at(), some((at(), small())), limit()).prop_map(|(by, after, limit)| Query::Shipped {
            by,
            after,
            limit
        }),
        small().prop_map(Query::Payment),
        (tenant(), small()).prop_map(|(tenant, order)| Query::Processing(tenant, order)),
        (tenant(), small()).prop_map(|(tenant, order)| Query::Payments(tenant, order)),
        (tenant(), small()).prop_map(|(tenant, order)| Query::ListingChanges(tenant, order)),
        (tenant(), prop_oneof![Just(20_i64), small()])
            .prop_map(|(tenant, seller)| Query::Listing(tenant, seller)),
        (tenant(), small()).prop_map(|(tenant, order)| Query::Shipments(tenant, order)),
        (tenant(), some(1..=4_i64), limit()).prop_map(|(tenant, before, limit)| Query::ListingPage {
            tenant,
            before,
            limit
        }),
        (
            tenant(),
            select(&[OrderSide::Buyer, OrderSide::Seller][..]),
            some(select(ShipmentState::ALL)),
            0..=3_usize,
            limit()
        )
            .prop_map(|(tenant, side, state, skip, limit)| Query::ShipmentPage {
                tenant,
                side,
                state,
                skip,
                limit
            }),
        (tenant(), small()).prop_map(|(tenant, order)| Query::Notifications(tenant, order)),
        (tenant(), small(), 0..=3_usize, limit())
            .prop_map(|(tenant, user, skip, limit)| Query::NotificationPage { tenant, user, skip, limit }),
        (tenant(), small()).prop_map(|(tenant, order)| Query::CreditChanges(tenant, order)),
        (tenant(), small()).prop_map(|(tenant, buyer)| Query::Credit(tenant, buyer)),
        Just(Query::Relays),
        Just(Query::Leases),
    ]
}

pub(super) fn operators_query() -> impl Strategy<Value = Query> {
    prop_oneof![
        (one_of(&QUEUES), one_of(&KEYS)).prop_map(|(queue, key)| Query::DeadLetter(queue, key)),
        (some(tenant()), some(one_of(&QUEUES)), some(select(DeadLetterStatus::ALL)), 0..=3_usize, limit())
            .prop_map(|(tenant, queue, status, skip, limit)| Query::DeadLetters {
                tenant,
                queue,
                status,
                skip,
                limit
            }),
        vec(one_of(&KEYS), 0..=3).prop_map(Query::DeadLettersOf),
        some(tenant()).prop_map(Query::Undecided),
        (some(tenant()), 0..=3_usize, limit()).prop_map(|(tenant, skip, limit)| Query::Audit {
            tenant,
            skip,
            limit
        }),
    ]
}

/// All queries that are executed after the last step of a sequence.
pub(crate) fn everything() -> Vec<Query> {
    let mut all = vec![
        Query::Relays,
        Query::Leases,
        Query::Overdue { by: 5, after: None, limit: 100 },
        Query::Shipped { by: 5, after: None, limit: 100 },
        Query::Backlog { at: 5 },
    ];
    for tenant in [None, Some(1), Some(2)] {
        all.extend([Query::OutboxCounts(tenant), Query::ConsumeCounts(tenant), Query::Undecided(tenant)]);
        all.push(Query::Blocked { tenant, skip: 0, limit: 100 });
        all.push(Query::Audit { tenant, skip: 0, limit: 100 });
        all.push(Query::DeadLetters { tenant, queue: None, status: None, skip: 0, limit: 100 });
        let event = None;
        let consumer = None;
        let status = None;
        all.push(Query::Consumed { tenant, event, consumer, status, skip: 0, limit: 100 });
    }
    all.push(Query::HistoryOf(EVENTS.to_vec()));
    all.extend([Query::ConsumedOf(EVENTS.to_vec()), Query::DeadLettersOf(KEYS.to_vec())]);
    all.push(Query::About(aggregates()));
    for tenant in [1, 2] {
        all.push(Query::Products { tenant, status: None, before: None, limit: 100 });
        all.push(Query::Products { tenant, status: None, before: Some(2), limit: 100 });
        for user in [1, 2, 3, 20] {
            for side in [OrderSide::Buyer, OrderSide::Seller] {
                all.push(Query::Orders { tenant, user, side, status: None, before: None, limit: 100 });
            }
        }
        all.push(Query::Listing(tenant, 20));
        for id in 1..=3 {
            all.extend([Query::Product(tenant, id), Query::Order(tenant, id), Query::Processing(tenant, id)]);
            all.push(Query::Payments(tenant, id));
            all.extend([Query::ListingChanges(tenant, id), Query::Shipments(tenant, id)]);
            all.extend([Query::Notifications(tenant, id), Query::CreditChanges(tenant, id)]);
            all.push(Query::Credit(tenant, id));
            all.push(Query::NotificationPage { tenant, user: id, skip: 0, limit: 100 });
        }
    }
    all.extend((1..=3).map(Query::Payment));
    all.push(Query::Page {
        tenant: None,
        status: None,
        aggregate: None,
        from: None,
        to: None,
        skip: 0,
        limit: 100,
    });
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        for (at, limit) in [(0, 100), (0, 1), (0, 2), (2, 100), (2, 1), (5, 100), (5, 1), (5, 2), (5, 3)] {
            all.push(Query::Due { partitions: vec![1, 2, 3], at, on_failed, limit });
        }
    }
    for consumer in CONSUMERS {
        let types = TYPES.to_vec();
        all.push(Query::Subscription(consumer));
        all.extend(EVENTS.map(|event| Query::Consumption(consumer, event)));
        all.push(Query::Unapplied { consumer, types: types.clone(), skip: 0, aggregates: aggregates() });
        all.push(Query::Unseen { consumer, types, skip: 0, after: 0, until: 5, limit: 100 });
        all.extend([(0, 0), (3, 3), (5, 5)].map(|(idle_since, now)| Query::Leftovers {
            consumer,
            idle_since,
            now,
            limit: 100,
        }));
    }
    all
}

fn aggregates() -> Vec<(Small, &'static str, Small)> {
    let of_kind = |tenant, kind| (1..=3).map(move |id| (tenant, kind, id));
    [1, 2]
        .into_iter()
        .flat_map(|tenant| KINDS.into_iter().flat_map(move |kind| of_kind(tenant, kind)))
        .collect()
}
