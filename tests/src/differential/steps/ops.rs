//! Strategies for writes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use handover_events::ConsumeStatus;
use handover_outbox::ports::{DeadLetterStatus, Expected};
use marketplace::ports::{IdKind, ListingChangeKind};
use marketplace_domain::{CreditOutcome, OrderStatus, PaymentStatus, ProductStatus};

use super::{
    CONSUMERS, EVENTS, Event, KEYS, Op, QUEUES, Row, Small, at, event_type, kind, one_of, query, small, some,
    tenant,
};

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
    let what = (tenant(), one_of(&CONSUMERS), one_of(&EVENTS));
    (what, expected, status(), 0..=2_u32, some(at()), some(at()), at()).prop_map(
        |((tenant, consumer, event), expected, status, attempts, retry, lease, at)| Row {
            tenant,
            consumer,
            event,
            expected,
            status,
            attempts,
            retry,
            // Only a row in PROCESSING has a lease.
            lease: if status == ConsumeStatus::Processing { lease.or(Some(at)) } else { None },
            at,
        },
    )
}

fn operating() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (vec((one_of(&EVENTS), at()), 0..=3), at()).prop_map(|(events, at)| Op::Redrive { events, at }),
        1 => vec((one_of(&EVENTS), at()), 0..=3).prop_map(Op::AddHistory),
        2 => (tenant(), kind(), small(), at())
            .prop_map(|(tenant, kind, aggregate, at)| Op::Release { tenant, kind, aggregate, at }),
        4 => (tenant(), one_of(&QUEUES), one_of(&KEYS), at())
            .prop_map(|(tenant, queue, key, at)| Op::Park { tenant, queue, key, at }),
        4 => decide(),
        1 => (tenant(), select(&["a", "b"][..])).prop_map(|(tenant, action)| Op::Audit { tenant, action }),
    ]
}

fn decide() -> impl Strategy<Value = Op> {
    let status = || select(DeadLetterStatus::ALL);
    let from = prop_oneof![2 => Just(DeadLetterStatus::ALL.to_vec()), 3 => vec(status(), 0..=2)];
    let note = some(select(&["checked", "fixed"][..]));
    (one_of(&QUEUES), one_of(&KEYS), from, status(), note, at())
        .prop_map(|(queue, key, from, to, note, at)| Op::Decide { queue, key, from, to, note, at })
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
        2 => vec((small(), order(), kind()), 0..=3).prop_map(Op::ChangeListings),
        1 => vec(order(), 0..=3).prop_map(Op::OpenShipments),
        2 => vec((tenant(), order(), small()), 0..=3).prop_map(Op::Notify),
        2 => vec((tenant(), small(), order(), select(CreditOutcome::ALL)), 0..=6).prop_map(Op::ChangeCredit),
        1 => (select(&[IdKind::Order, IdKind::Product][..]), 1..=3_u32).prop_map(|(kind, size)| Op::TakeIds { kind, size }),
    ]
}

/// One of many orders, so that most orders have no effects yet. A second effect of the same fact would be rejected as a
/// conflict.
fn order() -> impl Strategy<Value = Small> {
    1..=40_i64
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => business(),
        6 => outbox(),
        3 => leases(),
        4 => consuming(),
        4 => operating(),
        3 => query().prop_map(Op::Read),
    ]
}
