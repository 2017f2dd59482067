//! What must be true when all is quiet. Reads the plain store, past all faults, and counts effects in their own rows.
//!
//! What can be seen on the way is checked there: at each commit ([`crate::ports`]), and where a client is answered
//! ([`crate::actors`]).

mod assets;
mod convergence;
mod effects;
mod good_day;
mod history;
mod log;
mod misleading;
mod money;
mod parties;
mod promises;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handover_events::*;
use handover_outbox::ports::*;
use marketplace::App;
use marketplace::handlers::standard;
use marketplace::ports::*;
use marketplace_domain::*;

use super::actors::bank::Bank;
use super::actors::journal::Journal;
use super::actors::rows_by_hand::{is_by_hand, is_misleading};
use super::faults::Faults;

const ALL: u32 = 100_000;

/// What the oracle looks at.
pub(crate) struct Evidence {
    pub(crate) store: Arc<MarketStore>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) app: App,
    pub(crate) journal: Journal,
    pub(crate) bank: Bank,
    pub(crate) faults: Faults,
    /// Operators gave everything another chance since the trouble ended: nothing may be left but what they discarded.
    pub(crate) tidied: bool,
}

impl Evidence {
    async fn rows(&self) -> Result<Vec<OutboxRow>, StoreError> {
        let mut rows =
            self.store.view().await?.outbox_view().outbox_page(&OutboxFilter::default(), None, ALL).await?;
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }
}

/// Whether somebody inserted this row by hand, for a fact whose own event is there.
fn is_second(row: &OutboxRow, rows: &[&OutboxRow]) -> bool {
    // The row of a fact may be lost; then the one inserted by hand is its event.
    is_by_hand(&row.event_id) && rows.iter().any(|other| fact_of(other) == fact_of(row) && other.id < row.id)
}

/// The fact that a row announces: two events of one fact differ in their ids alone.
fn fact_of(row: &OutboxRow) -> String {
    let status = row.payload.split_once("\"newStatus\":\"").and_then(|(_, rest)| rest.split('"').next());
    fact(row.aggregate.id, &row.event_type, status.unwrap_or_default())
}

fn fact(order: i64, event_type: &str, status: &str) -> String {
    format!("{event_type} {status} of {order}")
}

/// What is read once and asked for by several checks.
struct Case<'a> {
    evidence: &'a Evidence,
    view: Box<dyn MarketView>,
    rows: &'a [OutboxRow],
    /// Aggregates whose later events are held by a failed one.
    held: BTreeSet<AggregateRef>,
    letters: BTreeMap<(String, String), DeadLetter>,
    /// The facts of events that were consumed, as far as the log tells: their rows may be lost.
    lost: BTreeMap<EventId, String>,
    /// What the consume log has of each event, with the consumer.
    log: BTreeMap<EventId, Vec<(String, ConsumeRecord)>>,
    broken: Vec<String>,
}

/// Whether an event has a place in the order of its aggregate.
pub(crate) fn is_ordered(row: &OutboxRow) -> bool {
    row.event_type.parse().map_or(true, EventType::is_ordered)
}

impl Case<'_> {
    fn breaks(&mut self, what: String) {
        self.broken.push(what);
    }

    /// Whether this row is not on its way although it is pending: a failed one before it holds it.
    fn is_held(&self, row: &OutboxRow) -> bool {
        row.status.is_pending() && is_ordered(row) && self.held.contains(&row.aggregate)
    }

    /// What the log of this consumer has of this event.
    fn record(&self, consumer: &str, event: &EventId) -> Option<&ConsumeRecord> {
        let records = self.log.get(event)?;
        records.iter().find(|(name, _)| name == consumer).map(|(_, record)| record)
    }

    /// The events of these types that must have had their effect at this consumer, given what is parked.
    fn due(&self, consumer: &str, rows: &[&OutboxRow], types: &[EventType]) -> Vec<EventId> {
        let mut events = Vec::new();
        for row in rows.iter().filter(|row| types.iter().any(|kind| kind.as_str() == row.event_type)) {
            let record = self.record(consumer, &row.event_id);
            let parked = record.is_some_and(|record| record.status == ConsumeStatus::Dead);
            // A FAILED row may have been caught up with from the outbox, or not at all: the log says which.
            let passed_over = record.is_none() && (row.status == OutboxStatus::Failed || self.is_held(row));
            if !parked && !passed_over {
                events.push(row.event_id.clone());
            }
        }
        events
    }

    /// Whether each fact whose events were due had its effect once, and those whose events nobody ever gave up in order.
    fn compare(&mut self, consumer: &str, order: &Order, due: &[EventId], had: &[EventId]) {
        let mut facts = self.facts(due);
        let mut seen = BTreeSet::new();
        facts.retain(|fact| seen.insert(fact.clone()));
        let effects = self.facts(had);
        let sorted = |facts: &[String]| -> Vec<String> {
            let mut facts = facts.to_vec();
            facts.sort();
            facts
        };
        if sorted(&facts) != sorted(&effects) {
            self.breaks(format!("{consumer} had effects of {had:?} of order {}, due were {due:?}", order.id));
            return;
        }
        // What was given up lets later ones pass, and may come after them.
        let given_up = self.evidence.faults.seen(|seen| seen.given_up.iter().cloned().collect::<Vec<_>>());
        let given_up: BTreeSet<String> = self.facts(&given_up).into_iter().collect();
        facts.retain(|fact| !given_up.contains(fact));
        let in_order: Vec<&String> = effects.iter().filter(|fact| !given_up.contains(*fact)).collect();
        if facts.iter().ne(in_order.iter().copied()) {
            self.breaks(format!("{consumer} applied {had:?} of order {}, in order is {due:?}", order.id));
        }
    }

    /// The facts that these events announce.
    fn facts(&self, events: &[EventId]) -> Vec<String> {
        let known = |event: &EventId| self.rows.iter().find(|row| row.event_id == *event).map(fact_of);
        let lost = |event: &EventId| self.lost.get(event).cloned();
        events.iter().map(|event| known(event).or_else(|| lost(event)).unwrap_or(event.to_string())).collect()
    }
}

pub(crate) use convergence::differences;
pub(crate) use money::flaws;

/// How many dead letters nobody has decided on and a replay may close.
pub(crate) async fn open_letters(store: &MarketStore) -> Result<usize, StoreError> {
    let letters =
        store.view().await?.outbox_view().dead_letters_page(&DeadLetterFilter::default(), None, ALL).await?;
    let is_open = |letter: &DeadLetter| {
        let is_undecided = matches!(letter.status, DeadLetterStatus::Open | DeadLetterStatus::Replaying);
        is_undecided && !letter.key.parse().is_ok_and(|event| is_misleading(&event))
    };
    Ok(letters.iter().filter(|it| is_open(&it.effect)).count())
}

/// How many orders and events there are.
pub(crate) async fn sizes(evidence: &Evidence) -> Result<(usize, usize), StoreError> {
    let rows = evidence.rows().await?;
    let orders = rows.iter().filter(|row| row.event_type == EventType::OrderCreated.as_str()).count();
    Ok((orders, rows.len()))
}

/// What is still on its way, the first few of it; nothing means quiet.
pub(crate) async fn unsettled(evidence: &Evidence, most: usize) -> Result<Vec<String>, StoreError> {
    let mut open = Vec::new();
    // First of all: as long as one is pending, there are events to come.
    let later = evidence.app.now() + chrono::TimeDelta::hours(1);
    for (_, order) in evidence.store.view().await?.orders_overdue(later, ALL).await? {
        open.push(format!("order {order} is pending"));
    }
    if !open.is_empty() {
        return Ok(open);
    }
    for queue in evidence.broker.queues().await.unwrap_or_default() {
        if queue.unacked > 0 || queue.ready > 0 {
            let (name, ready, unacked) = (queue.name, queue.ready, queue.unacked);
            open.push(format!("queue {name} has {ready} ready and {unacked} unacked"));
        }
    }
    if open.len() >= most {
        return Ok(open);
    }
    let rows = evidence.rows().await?;
    let mut case = case(evidence, &rows).await?;
    let subscribers = standard(&evidence.app);
    for row in &rows {
        if case.is_held(row) {
            evidence.faults.cover(|coverage| coverage.place("an event held by a failed one"));
        } else if row.status.is_pending() {
            open.push(format!("outbox {} {} is {}", row.event_type, row.event_id, row.status));
        }
        for subscriber in &subscribers {
            let (name, takes) = (subscriber.handler.name(), subscriber.handler.takes());
            if !takes.contains(&row.event_type.as_str()) {
                continue;
            }
            let record = case.record(name, &row.event_id);
            // One that failed to be sent may have been begun from its row all the same.
            let begun = row.status == OutboxStatus::Sent || record.is_some();
            if begun && !record.is_some_and(|record| record.status.is_settled()) {
                let status = record.map_or("missing".to_owned(), |record| record.status.to_string());
                open.push(format!("{name} {} {} is {status}", row.event_type, row.event_id));
            }
        }
        if open.len() >= most {
            return Ok(open);
        }
    }
    if open.is_empty() {
        open = money::unsettled(&mut case).await?;
    }
    Ok(open)
}

/// Every promise that does not hold.
pub(crate) async fn violations(evidence: &Evidence) -> Result<Vec<String>, StoreError> {
    let rows = evidence.rows().await?;
    let mut case = case(evidence, &rows).await?;
    let mut of_order: BTreeMap<(TenantId, i64), Vec<&OutboxRow>> = BTreeMap::new();
    let is_true = |row: &&OutboxRow| !is_misleading(&row.event_id);
    for row in rows.iter().filter(|row| row.aggregate.kind == "Order").filter(is_true) {
        of_order.entry((row.aggregate.tenant, row.aggregate.id)).or_default().push(row);
    }
    let mut orders: Vec<Order> = Vec::new();
    let (mut counted, mut used) = (parties::Counted::new(), assets::Used::default());
    for ((tenant, id), rows) in &of_order {
        let Ok(id) = OrderId::try_from(*id) else { continue };
        let Some(order) = case.view.order_by_id(*tenant, id).await? else {
            case.breaks(format!("order {id} has events and is not there"));
            continue;
        };
        history::check(&mut case, &order, rows).await?;
        effects::check(&mut case, &order, rows).await?;
        parties::check(&mut case, &order, rows, &mut counted).await?;
        assets::check(&mut case, &order, rows, &mut used).await?;
        orders.push(order);
    }
    parties::check_scores(&mut case, &counted).await?;
    history::check_products(&mut case, &orders).await?;
    money::check(&mut case, &used).await?;
    promises::check(&mut case).await?;
    log::check(&mut case).await?;
    misleading::check(&mut case);
    Ok(case.broken)
}

async fn case<'a>(evidence: &'a Evidence, rows: &'a [OutboxRow]) -> Result<Case<'a>, StoreError> {
    let mut view = evidence.store.view().await?;
    let held = match evidence.app.rules.on_failed {
        OnFailed::Continue => BTreeSet::new(),
        OnFailed::Hold => view
            .outbox_view()
            .blocked_page(evidence.app.outbox.registry.unordered(), None, None, ALL)
            .await?
            .into_iter()
            .map(|held| held.effect.aggregate)
            .collect(),
    };
    let letters = view.outbox_view().dead_letters_page(&DeadLetterFilter::default(), None, ALL).await?;
    let letters = letters.into_iter().map(|it| ((it.effect.queue.clone(), it.effect.key.clone()), it.effect));
    let mut log: BTreeMap<EventId, Vec<(String, ConsumeRecord)>> = BTreeMap::new();
    let mut lost = BTreeMap::new();
    for it in view.outbox_view().consumed_page(&ConsumedFilter::default(), None, ALL).await? {
        let told = fact(it.effect.aggregate.id, &it.effect.event_type, "");
        lost.insert(it.effect.event_id.clone(), told);
        log.entry(it.effect.event_id).or_default().push((it.effect.consumer, it.effect.record));
    }
    Ok(Case { evidence, view, rows, held, letters: letters.collect(), lost, log, broken: Vec::new() })
}
