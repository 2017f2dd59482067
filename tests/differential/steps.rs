//! What is played: units of work, views and steps of the database's clock.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use handover_application::ports::{Expected, IdKind, ListingChangeKind, OnFailed, OrderSide};
use handover_domain::{
    ConsumeStatus, CreditStep, EventType, OrderStatus, OutboxStatus, PaymentStatus, ProductStatus,
};

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A unit of work and how it ends.
    Unit { ops: Vec<Op>, commit: bool },
    /// Reading outside any unit.
    View(Vec<Query>),
    /// The database's own clock moves on by so many times 20 s.
    Clock(i64),
}

/// A number from a small universe.
pub(crate) type Small = i64;

/// An event of a small universe.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: &'static str,
    pub(crate) event_type: EventType,
    pub(crate) kind: &'static str,
    pub(crate) tenant: Small,
    pub(crate) aggregate: Small,
    pub(crate) seq: i64,
    pub(crate) at: Small,
}

/// A row of the consume log.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) consumer: &'static str,
    pub(crate) event: &'static str,
    pub(crate) expected: Expected,
    pub(crate) status: ConsumeStatus,
    pub(crate) attempts: u32,
    pub(crate) retry: Option<Small>,
    pub(crate) lease: Option<Small>,
    pub(crate) at: Small,
}

/// A write, or a read in the middle of a unit.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    InsertProduct {
        tenant: Small,
        id: Small,
        seller: Small,
    },
    AdvanceProduct {
        tenant: Small,
        id: Small,
        version: i64,
        status: ProductStatus,
    },
    InsertOrder {
        tenant: Small,
        id: Small,
        buyer: Small,
        at: Small,
    },
    AdvanceOrder {
        tenant: Small,
        id: Small,
        version: i64,
        status: OrderStatus,
    },
    InsertPayment {
        tenant: Small,
        id: Small,
        order: Small,
    },
    AdvancePayment {
        tenant: Small,
        id: Small,
        order: Small,
        version: i64,
        status: PaymentStatus,
        transaction: &'static str,
    },
    Append(Vec<Event>),
    MarkSent {
        events: Vec<&'static str>,
        at: Small,
    },
    MarkFailed {
        events: Vec<(&'static str, Option<Small>, bool)>,
        at: Small,
    },
    Take {
        relay: Small,
        partition: Small,
        epoch: i64,
    },
    Renew {
        relay: Small,
        holds: Vec<(Small, i64)>,
    },
    GiveBack {
        relay: Small,
        holds: Vec<(Small, i64)>,
    },
    Fence {
        relay: Small,
        holds: Vec<(Small, i64)>,
    },
    Heartbeat(Small),
    Forget(Small),
    EndAllLeases,
    Record(Vec<Row>),
    Subscribe {
        consumer: &'static str,
        at: Small,
    },
    CheckedUntil {
        consumer: &'static str,
        at: Small,
    },
    Park {
        queue: &'static str,
        key: &'static str,
        at: Small,
    },
    ChangeListings(Vec<(Small, Small, ListingChangeKind)>),
    OpenShipments(Vec<Small>),
    Notify(Vec<(Small, Small, Small)>),
    ChangeCredit(Vec<(Small, Small, Small, CreditStep)>),
    TakeIds {
        kind: IdKind,
        size: u32,
    },
    Read(Query),
}

/// A read.
#[derive(Debug, Clone)]
pub(crate) enum Query {
    Product(Small, Small),
    Products {
        tenant: Small,
        status: Option<ProductStatus>,
        before: Option<Small>,
        limit: u32,
    },
    Order(Small, Small),
    OrderOfParty(Small, Small, Small),
    Orders {
        tenant: Small,
        user: Small,
        side: OrderSide,
        status: Option<OrderStatus>,
        before: Option<Small>,
        limit: u32,
    },
    Overdue {
        at: Small,
        limit: u32,
    },
    Payment(Small),
    Processing(Small, Small),
    Due {
        partitions: Vec<Small>,
        at: Small,
        on_failed: OnFailed,
        limit: u32,
    },
    NextDue {
        partitions: Vec<Small>,
        at: Small,
    },
    ByEvent(Vec<&'static str>),
    Page {
        tenant: Option<Small>,
        status: Option<OutboxStatus>,
        aggregate: Option<Small>,
        from: Option<Small>,
        to: Option<Small>,
        skip: usize,
        limit: u32,
    },
    Consumption(&'static str, &'static str),
    Unapplied {
        consumer: &'static str,
        types: Vec<EventType>,
        since: Small,
        aggregates: Vec<(Small, &'static str, Small)>,
    },
    Leftovers {
        consumer: &'static str,
        idle_since: Small,
        now: Small,
        limit: u32,
    },
    Unseen {
        consumer: &'static str,
        types: Vec<EventType>,
        since: Small,
        after: Small,
        until: Small,
        limit: u32,
    },
    Subscription(&'static str),
    DeadLetter(&'static str, &'static str),
    DeadLetters(Option<&'static str>, u32),
    ListingChanges(Small, Small),
    Listing(Small, Small),
    Shipments(Small, Small),
    ListingPage {
        tenant: Small,
        before: Option<Small>,
        limit: u32,
    },
    ShipmentPage {
        tenant: Small,
        side: OrderSide,
        skip: usize,
        limit: u32,
    },
    Notifications(Small, Small),
    NotificationPage {
        tenant: Small,
        user: Small,
        skip: usize,
        limit: u32,
    },
    CreditChanges(Small, Small),
    Credit(Small, Small),
    LiveRelays,
    Leases,
}

const EVENTS: [&str; 10] = ["e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "E1", "E2"];
const CONSUMERS: [&str; 3] = ["inventory", "Inventory", "fulfillment"];
const KINDS: [&str; 2] = ["Order", "Payment"];
const QUEUES: [&str; 2] = ["a.queue", "b.queue"];
const KEYS: [&str; 3] = ["k1", "k2", "K1"];
const TYPES: [EventType; 3] = [EventType::OrderPaid, EventType::OrderCreated, EventType::OrderTimeout];

fn small() -> impl Strategy<Value = Small> {
    1..=3_i64
}

fn tenant() -> impl Strategy<Value = Small> {
    prop_oneof![4 => Just(1_i64), 1 => Just(2)]
}

fn at() -> impl Strategy<Value = Small> {
    0..=5_i64
}

/// Mostly one kind: aggregates with several events are what matters.
fn kind() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(KINDS[0]), 1 => Just(KINDS[1])]
}

fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![1 => 0..=1_u32, 2 => Just(2), 3 => Just(100)]
}

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    select(names)
}

fn event_type() -> impl Strategy<Value = EventType> {
    select(&TYPES[..])
}

fn some<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    proptest::option::of(strategy)
}

fn holds() -> impl Strategy<Value = Vec<(Small, i64)>> {
    vec((small(), 0..=3_i64), 0..=3)
}

fn event() -> impl Strategy<Value = Event> {
    (one_of(&EVENTS), event_type(), kind(), tenant(), small(), 0..=4_i64, at()).prop_map(
        |(id, event_type, kind, tenant, aggregate, seq, at)| Event {
            id,
            event_type,
            kind,
            tenant,
            aggregate,
            seq,
            at,
        },
    )
}

fn row() -> impl Strategy<Value = Row> {
    let status = || select(ConsumeStatus::ALL);
    let expected = prop_oneof![
        3 => Just(Expected::Absent),
        2 => (status(), 0..=2_u32).prop_map(|(status, attempts)| Expected::At(status, attempts)),
    ];
    (one_of(&CONSUMERS), one_of(&EVENTS), expected, status(), 0..=2_u32, some(at()), some(at()), at())
        .prop_map(|(consumer, event, expected, status, attempts, retry, lease, at)| Row {
            consumer,
            event,
            expected,
            status,
            attempts,
            retry,
            // Only a row in PROCESSING is somebody's.
            lease: if status == ConsumeStatus::Processing { lease.or(Some(at)) } else { None },
            at,
        })
}

fn business() -> impl Strategy<Value = Op> {
    let version = || 1..=4_i64;
    prop_oneof![
        (tenant(), small(), small()).prop_map(|(tenant, id, seller)| Op::InsertProduct {
            tenant,
            id,
            seller
        }),
        (tenant(), small(), version(), select(ProductStatus::ALL))
            .prop_map(|(tenant, id, version, status)| Op::AdvanceProduct { tenant, id, version, status }),
        (tenant(), small(), small(), at()).prop_map(|(tenant, id, buyer, at)| Op::InsertOrder {
            tenant,
            id,
            buyer,
            at
        }),
        (tenant(), small(), version(), select(OrderStatus::ALL))
            .prop_map(|(tenant, id, version, status)| Op::AdvanceOrder { tenant, id, version, status }),
        (tenant(), small(), small()).prop_map(|(tenant, id, order)| Op::InsertPayment { tenant, id, order }),
        (
            tenant(),
            small(),
            small(),
            version(),
            select(PaymentStatus::ALL),
            select(&["t1", "t2", "T1", "t1 "][..])
        )
            .prop_map(|(tenant, id, order, version, status, transaction)| Op::AdvancePayment {
                tenant,
                id,
                order,
                version,
                status,
                transaction
            }),
    ]
}

fn outbox() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => vec(event(), 1..=3).prop_map(Op::Append),
        2 => (vec(one_of(&EVENTS), 0..=3), at()).prop_map(|(events, at)| Op::MarkSent { events, at }),
        3 => (vec((one_of(&EVENTS), some(at()), any::<bool>()), 0..=3), at())
            .prop_map(|(events, at)| Op::MarkFailed { events, at }),
    ]
}

fn leases() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (small(), small(), 0..=3_i64).prop_map(|(relay, partition, epoch)| Op::Take { relay, partition, epoch }),
        2 => (small(), holds()).prop_map(|(relay, holds)| Op::Renew { relay, holds }),
        1 => (small(), holds()).prop_map(|(relay, holds)| Op::GiveBack { relay, holds }),
        2 => (small(), holds()).prop_map(|(relay, holds)| Op::Fence { relay, holds }),
        2 => small().prop_map(Op::Heartbeat),
        1 => small().prop_map(Op::Forget),
        1 => Just(Op::EndAllLeases),
    ]
}

fn consuming() -> impl Strategy<Value = Op> {
    let kind = || select(&[ListingChangeKind::Occupied, ListingChangeKind::Released][..]);
    prop_oneof![
        4 => vec(row(), 0..=3).prop_map(Op::Record),
        1 => (one_of(&CONSUMERS), at()).prop_map(|(consumer, at)| Op::Subscribe { consumer, at }),
        1 => (one_of(&CONSUMERS), at()).prop_map(|(consumer, at)| Op::CheckedUntil { consumer, at }),
        1 => (one_of(&QUEUES), one_of(&KEYS), at()).prop_map(|(queue, key, at)| Op::Park { queue, key, at }),
        2 => vec((small(), small(), kind()), 0..=3).prop_map(Op::ChangeListings),
        1 => vec(small(), 0..=3).prop_map(Op::OpenShipments),
        2 => vec((tenant(), small(), small()), 0..=3).prop_map(Op::Notify),
        2 => vec((tenant(), small(), small(), select(CreditStep::ALL)), 0..=6).prop_map(Op::ChangeCredit),
        1 => (select(&[IdKind::Order, IdKind::Product][..]), 1..=3_u32).prop_map(|(kind, size)| Op::TakeIds { kind, size }),
    ]
}

fn outbox_query() -> impl Strategy<Value = Query> {
    let partitions = || prop_oneof![Just((1..=3_i64).collect::<Vec<_>>()), vec(small(), 0..=2)];
    let on_failed = select(&[OnFailed::Continue, OnFailed::Hold][..]);
    prop_oneof![
        4 => (partitions(), at(), on_failed, limit())
            .prop_map(|(partitions, at, on_failed, limit)| Query::Due { partitions, at, on_failed, limit }),
        2 => (partitions(), at()).prop_map(|(partitions, at)| Query::NextDue { partitions, at }),
        1 => vec(one_of(&EVENTS), 0..=3).prop_map(Query::ByEvent),
        2 => (some(tenant()), some(select(OutboxStatus::ALL)), some(small()), some(at()), some(at()), 0..=3_usize, limit())
            .prop_map(|(tenant, status, aggregate, from, to, skip, limit)| Query::Page {
                tenant, status, aggregate, from, to, skip, limit
            }),
    ]
}

fn consume_query() -> impl Strategy<Value = Query> {
    let types = || vec(event_type(), 0..=3);
    let aggregates = vec((tenant(), one_of(&KINDS), small()), 0..=3);
    prop_oneof![
        (one_of(&CONSUMERS), one_of(&EVENTS))
            .prop_map(|(consumer, event)| Query::Consumption(consumer, event)),
        (one_of(&CONSUMERS), types(), at(), aggregates).prop_map(|(consumer, types, since, aggregates)| {
            Query::Unapplied { consumer, types, since, aggregates }
        }),
        (one_of(&CONSUMERS), at(), at(), limit()).prop_map(|(consumer, idle_since, now, limit)| {
            Query::Leftovers { consumer, idle_since, now, limit }
        }),
        (one_of(&CONSUMERS), types(), at(), at(), at(), limit()).prop_map(
            |(consumer, types, since, after, until, limit)| Query::Unseen {
                consumer,
                types,
                since,
                after,
                until,
                limit
            }
        ),
        one_of(&CONSUMERS).prop_map(Query::Subscription),
    ]
}

fn other_query() -> impl Strategy<Value = Query> {
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
        (at(), limit()).prop_map(|(at, limit)| Query::Overdue { at, limit }),
        small().prop_map(Query::Payment),
        (tenant(), small()).prop_map(|(tenant, order)| Query::Processing(tenant, order)),
        (one_of(&QUEUES), one_of(&KEYS)).prop_map(|(queue, key)| Query::DeadLetter(queue, key)),
        (some(one_of(&QUEUES)), limit()).prop_map(|(queue, limit)| Query::DeadLetters(queue, limit)),
        (tenant(), small()).prop_map(|(tenant, order)| Query::ListingChanges(tenant, order)),
        (tenant(), prop_oneof![Just(20_i64), small()])
            .prop_map(|(tenant, seller)| Query::Listing(tenant, seller)),
        (tenant(), small()).prop_map(|(tenant, order)| Query::Shipments(tenant, order)),
        (tenant(), some(1..=4_i64), limit()).prop_map(|(tenant, before, limit)| Query::ListingPage {
            tenant,
            before,
            limit
        }),
        (tenant(), select(&[OrderSide::Buyer, OrderSide::Seller][..]), 0..=3_usize, limit())
            .prop_map(|(tenant, side, skip, limit)| Query::ShipmentPage { tenant, side, skip, limit }),
        (tenant(), small()).prop_map(|(tenant, order)| Query::Notifications(tenant, order)),
        (tenant(), small(), 0..=3_usize, limit())
            .prop_map(|(tenant, user, skip, limit)| Query::NotificationPage { tenant, user, skip, limit }),
        (tenant(), small()).prop_map(|(tenant, order)| Query::CreditChanges(tenant, order)),
        (tenant(), small()).prop_map(|(tenant, buyer)| Query::Credit(tenant, buyer)),
        Just(Query::LiveRelays),
        Just(Query::Leases),
    ]
}

fn query() -> impl Strategy<Value = Query> {
    prop_oneof![2 => outbox_query(), 2 => consume_query(), 1 => other_query()]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => business(),
        5 => outbox(),
        3 => leases(),
        4 => consuming(),
        3 => query().prop_map(Op::Read),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (vec(op(), 1..=4), prop::bool::weighted(0.85)).prop_map(|(ops, commit)| Step::Unit { ops, commit }),
        3 => vec(query(), 1..=4).prop_map(Step::View),
        1 => (1..=4_i64).prop_map(Step::Clock),
    ]
}

/// Sequences to play.
pub(crate) fn sequences() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 10..=40)
}

/// Everything that can be seen, for a look at the end.
pub(crate) fn everything() -> Vec<Query> {
    let mut all = vec![
        Query::LiveRelays,
        Query::Leases,
        Query::DeadLetters(None, 100),
        Query::Overdue { at: 5, limit: 100 },
    ];
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
    all.extend([0, 2].map(|at| Query::NextDue { partitions: vec![1, 2, 3], at }));
    for consumer in CONSUMERS {
        let types = TYPES.to_vec();
        let mut aggregates = Vec::new();
        for tenant in [1, 2] {
            aggregates.extend(KINDS.iter().flat_map(|kind| (1..=3).map(move |id| (tenant, *kind, id))));
        }
        all.push(Query::Subscription(consumer));
        all.extend(EVENTS.map(|event| Query::Consumption(consumer, event)));
        all.push(Query::Unapplied { consumer, types: types.clone(), since: 0, aggregates });
        all.push(Query::Unseen { consumer, types, since: 0, after: 0, until: 5, limit: 100 });
        all.extend([(0, 0), (3, 3), (5, 5)].map(|(idle_since, now)| Query::Leftovers {
            consumer,
            idle_since,
            now,
            limit: 100,
        }));
    }
    all
}
