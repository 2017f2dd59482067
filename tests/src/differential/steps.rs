//! The steps of a sequence: units of work, views and steps of the database's clock.

mod ops;
mod queries;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) use queries::everything;

use handover_contract::samples::{BOOK, BOOK_ADDED, BOOK_LENT, BOOK_OVERDUE};
use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::ports::{DeadLetterStatus, Expected, OnFailed};
use marketplace::ports::{IdKind, ListingChangeKind, OrderSide};
use marketplace_domain::{CreditOutcome, OrderStatus, PaymentStatus, ProductStatus, ShipmentState};

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A unit of work that is committed or dropped.
    Unit { ops: Vec<Op>, commit: bool },
    /// Queries outside a unit of work.
    View(Vec<Query>),
    /// Moves the database's clock forward by the given number of steps of 20 s.
    Clock(i64),
}

/// A number from a small set, for an id, a tenant or a time, so that operations collide.
pub(crate) type Small = i64;

/// An event with values from small sets.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: &'static str,
    pub(crate) event_type: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) tenant: Small,
    pub(crate) aggregate: Small,
    pub(crate) seq: i64,
    pub(crate) at: Small,
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) tenant: Small,
    pub(crate) consumer: &'static str,
    pub(crate) event: &'static str,
    pub(crate) expected: Expected,
    pub(crate) status: ConsumeStatus,
    pub(crate) attempts: u32,
    pub(crate) retry: Option<Small>,
    pub(crate) lease: Option<Small>,
    pub(crate) at: Small,
}

/// A write, or a query within a unit of work.
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
    Redrive {
        events: Vec<(&'static str, Small)>,
        at: Small,
    },
    AddHistory(Vec<(&'static str, Small)>),
    Release {
        tenant: Small,
        kind: &'static str,
        aggregate: Small,
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
        tenant: Small,
        queue: &'static str,
        key: &'static str,
        at: Small,
    },
    Decide {
        queue: &'static str,
        key: &'static str,
        from: Vec<DeadLetterStatus>,
        to: DeadLetterStatus,
        note: Option<&'static str>,
        at: Small,
    },
    Audit {
        tenant: Small,
        action: &'static str,
    },
    ChangeListings(Vec<(Small, Small, ListingChangeKind)>),
    OpenShipments(Vec<Small>),
    Notify(Vec<(Small, Small, Small)>),
    ChangeCredit(Vec<(Small, Small, Small, CreditOutcome)>),
    TakeIds {
        kind: IdKind,
        size: u32,
    },
    Read(Query),
}

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
    Shipped {
        by: Small,
        after: Option<(Small, Small)>,
        limit: u32,
    },
    Overdue {
        by: Small,
        after: Option<(Small, Small)>,
        limit: u32,
    },
    Payment(Small),
    Processing(Small, Small),
    Payments(Small, Small),
    Due {
        partitions: Vec<Small>,
        at: Small,
        on_failed: OnFailed,
        limit: u32,
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
    About(Vec<(Small, &'static str, Small)>),
    Blocked {
        tenant: Option<Small>,
        skip: usize,
        limit: u32,
    },
    OutboxCounts(Option<Small>),
    Backlog {
        at: Small,
    },
    Consumption(&'static str, &'static str),
    Consumed {
        tenant: Option<Small>,
        event: Option<&'static str>,
        consumer: Option<&'static str>,
        status: Option<ConsumeStatus>,
        skip: usize,
        limit: u32,
    },
    ConsumedOf(Vec<&'static str>),
    HistoryOf(Vec<&'static str>),
    ConsumeCounts(Option<Small>),
    Unapplied {
        consumer: &'static str,
        types: Vec<&'static str>,
        skip: Small,
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
        types: Vec<&'static str>,
        skip: Small,
        after: Small,
        until: Small,
        limit: u32,
    },
    Subscription(&'static str),
    DeadLetter(&'static str, &'static str),
    DeadLetters {
        tenant: Option<Small>,
        queue: Option<&'static str>,
        status: Option<DeadLetterStatus>,
        skip: usize,
        limit: u32,
    },
    DeadLettersOf(Vec<&'static str>),
    Undecided(Option<Small>),
    Audit {
        tenant: Option<Small>,
        skip: usize,
        limit: u32,
    },
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
        state: Option<ShipmentState>,
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
    Relays,
    Leases,
}

const EVENTS: [&str; 10] = ["e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "E1", "E2"];
const CONSUMERS: [&str; 3] = ["inventory", "Inventory", "fulfillment"];
const KINDS: [&str; 2] = [BOOK, "Shelf"];
const QUEUES: [&str; 2] = ["a.queue", "b.queue"];
const KEYS: [&str; 3] = ["k1", "k2", "K1"];
const TYPES: [&str; 3] = [BOOK_LENT, BOOK_ADDED, BOOK_OVERDUE];

fn small() -> impl Strategy<Value = Small> {
    1..=3_i64
}

fn tenant() -> impl Strategy<Value = Small> {
    prop_oneof![4 => Just(1_i64), 1 => Just(2)]
}

fn at() -> impl Strategy<Value = Small> {
    0..=5_i64
}

/// Mostly the same aggregate type, so that aggregates with several events are common.
fn kind() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(KINDS[0]), 1 => Just(KINDS[1])]
}

fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![1 => 0..=1_u32, 2 => Just(2), 3 => Just(100)]
}

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    select(names)
}

fn event_type() -> impl Strategy<Value = &'static str> {
    one_of(&TYPES)
}

fn some<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    proptest::option::of(strategy)
}

fn query() -> impl Strategy<Value = Query> {
    prop_oneof![
        2 => queries::outbox_query(),
        2 => queries::consume_query(),
        1 => queries::other_query(),
        1 => queries::operators_query(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (vec(ops::op(), 1..=4), prop::bool::weighted(0.85)).prop_map(|(ops, commit)| Step::Unit { ops, commit }),
        3 => vec(query(), 1..=4).prop_map(Step::View),
        1 => (1..=4_i64).prop_map(Step::Clock),
    ]
}

pub(crate) fn sequences() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 10..=60)
}
