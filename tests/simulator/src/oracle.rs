//! Invariants that must hold when no work is pending. The checks read the store without faults, and count effects in
//! the tables of the effects.
//!
//! Invariants that can be checked during the run are checked at each commit ([`crate::ports`]) and at each response
//! ([`crate::actors`]).

mod archive;
mod assets;
mod client_responses;
mod convergence;
mod effects;
mod history;
mod invalid_rows;
mod invoices;
mod log;
mod money;
mod parties;
mod reference_run;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handover_events::{AggregateRef, ConsumeStatus, EventId, OutboxStatus, TenantId};
use handover_outbox::ports::{
    Broker, ConsumeRecord, ConsumedFilter, DeadLetter, DeadLetterFilter, EventWithRecords, OnFailed,
    OutboxFilter, OutboxRow, StoreError,
};
use marketplace::App;
use marketplace::ports::{MarketStore, MarketView};
use marketplace_domain::{EventKind, Order, OrderId};

use super::actors::journal::Journal;
use super::faults::Faults;
use super::gateway_model::GatewayModel;
use super::row_kinds::{is_invalid, is_manual, is_ordered};

const ALL: u32 = 100_000;

/// Everything that the checks read.
pub(crate) struct Evidence {
    pub(crate) store: Arc<MarketStore>,
    pub(crate) broker: Arc<dyn Broker>,
    /// The archive; `None` in a run without one.
    pub(crate) archive: Option<ArchiveReader>,
    pub(crate) app: App,
    pub(crate) journal: Journal,
    pub(crate) gateway_model: GatewayModel,
    pub(crate) faults: Faults,
    /// Operators have redriven and replayed everything since the fault phase: only discarded dead letters may remain.
    pub(crate) recovered: bool,
}

impl Evidence {
    /// The rows of all events, in the outbox and in the archive.
    async fn rows(&self) -> Result<Vec<OutboxRow>, StoreError> {
        let mut rows =
            self.store.view().await?.outbox_view().outbox_page(&OutboxFilter::default(), None, ALL).await?;
        // An event is moved to the archive at once, so that it is in the outbox or, read later, in the archive.
        let moved = self.archived().await?.into_iter().map(|event| event.row);
        let moved: Vec<OutboxRow> =
            moved.filter(|moved| rows.iter().all(|row| row.event_id != moved.event_id)).collect();
        rows.extend(moved);
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }

    pub(crate) async fn archived(&self) -> Result<Vec<EventWithRecords>, StoreError> {
        match &self.archive {
            Some(archive) => archive.events(self).await,
            None => Ok(Vec::new()),
        }
    }
}

/// Whether this row was inserted manually for a fact that already has an event.
fn is_second(row: &OutboxRow, rows: &[&OutboxRow]) -> bool {
    // If the original row was lost, the manually inserted one is the event of the fact.
    is_manual(&row.event_id) && rows.iter().any(|other| fact_of(other) == fact_of(row) && other.id < row.id)
}

/// The fact of a row: two events of one fact differ only in their ids.
fn fact_of(row: &OutboxRow) -> String {
    let status = row.payload.split_once("\"newStatus\":\"").and_then(|(_, rest)| rest.split('"').next());
    fact(row.aggregate.id.number(), &row.event_type, status.unwrap_or_default())
}

fn fact(order: i64, event_type: &str, status: &str) -> String {
    format!("{event_type} {status} of {order}")
}

/// Data shared by the checks, and the violations found.
struct Checker<'a> {
    evidence: &'a Evidence,
    view: Box<dyn MarketView>,
    rows: &'a [OutboxRow],
    /// Aggregates blocked by a FAILED event.
    blocked: BTreeSet<AggregateRef>,
    dead_letters: BTreeMap<(String, String), DeadLetter>,
    /// Facts of consumed events according to the consume log; their outbox rows may be lost.
    lost: BTreeMap<EventId, String>,
    /// Consume-log records of each event, with the consumer.
    log: BTreeMap<EventId, Vec<(String, ConsumeRecord)>>,
    violations: Vec<String>,
}

impl Checker<'_> {
    fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    /// Whether a pending row is blocked by an earlier FAILED row of its aggregate.
    fn is_blocked(&self, row: &OutboxRow) -> bool {
        row.status.is_pending() && is_ordered(row) && self.blocked.contains(&row.aggregate)
    }

    /// The consume-log record of this consumer for this event.
    fn record(&self, consumer: &str, event: &EventId) -> Option<&ConsumeRecord> {
        let records = self.log.get(event)?;
        records.iter().find(|(name, _)| name == consumer).map(|(_, record)| record)
    }

    /// The events of the given types that must have an effect at the consumer: all except dead and skipped events.
    fn expected_events(&self, consumer: &str, rows: &[&OutboxRow], types: &[EventKind]) -> Vec<EventId> {
        let mut events = Vec::new();
        for row in rows.iter().filter(|row| types.iter().any(|kind| kind.as_str() == row.event_type)) {
            let record = self.record(consumer, &row.event_id);
            let is_dead = record.is_some_and(|record| record.status == ConsumeStatus::Dead);
            // A consumer may have applied a FAILED row from the outbox; its consume-log record shows that.
            let is_skipped = record.is_none() && (row.status == OutboxStatus::Failed || self.is_blocked(row));
            if !is_dead && !is_skipped {
                events.push(row.event_id.clone());
            }
        }
        events
    }

    /// Checks that each expected fact had one effect, and that the effects are in the order of the events of the
    /// aggregate, except effects of events that were FAILED or DEAD at some time.
    fn compare(&mut self, consumer: &str, order: &Order, expected_events: &[EventId], applied: &[EventId]) {
        let mut facts = self.facts(expected_events);
        let mut observed = BTreeSet::new();
        facts.retain(|fact| observed.insert(fact.clone()));
        let effects = self.facts(applied);
        let sorted = |facts: &[String]| -> Vec<String> {
            let mut facts = facts.to_vec();
            facts.sort();
            facts
        };
        if sorted(&facts) != sorted(&effects) {
            self.violation(format!(
                "{consumer} has effects of {applied:?} of order {}, expected {expected_events:?}",
                order.id
            ));
            return;
        }
        // The sequence is checked without events that were FAILED or DEAD, because later events may overtake them.
        let failed_or_dead = self
            .evidence
            .faults
            .observed(|observed| observed.failed_or_dead.iter().cloned().collect::<Vec<_>>());
        let failed_or_dead: BTreeSet<String> = self.facts(&failed_or_dead).into_iter().collect();
        facts.retain(|fact| !failed_or_dead.contains(fact));
        let in_order: Vec<&String> = effects.iter().filter(|fact| !failed_or_dead.contains(*fact)).collect();
        if facts.iter().ne(in_order.iter().copied()) {
            self.violation(format!(
                "{consumer} applied {applied:?} of order {}, the correct sequence is {expected_events:?}",
                order.id
            ));
        }
    }

    fn facts(&self, events: &[EventId]) -> Vec<String> {
        let known = |event: &EventId| self.rows.iter().find(|row| row.event_id == *event).map(fact_of);
        let lost = |event: &EventId| self.lost.get(event).cloned();
        events.iter().map(|event| known(event).or_else(|| lost(event)).unwrap_or(event.to_string())).collect()
    }
}

pub(crate) use archive::{ArchiveReader, archivable};
pub(crate) use convergence::differences;
pub(crate) use money::ledger_violations;

/// Number of open dead letters that a replay can close, and of webhook deliveries that are `DEAD`.
pub(crate) async fn recoverable(store: &MarketStore) -> Result<usize, StoreError> {
    let mut view = store.view().await?;
    let dead_letters = view.outbox_view().dead_letters_page(&DeadLetterFilter::default(), None, ALL).await?;
    let dead_deliveries = view.outbox_view().webhook_counts(chrono::DateTime::UNIX_EPOCH).await?.dead;
    let is_open = |dead_letter: &DeadLetter| {
        let is_undecided = dead_letter.status.is_undecided();
        is_undecided && !dead_letter.key.parse().is_ok_and(|event| is_invalid(&event))
    };
    let open = dead_letters.iter().filter(|it| is_open(&it.effect)).count();
    Ok(open + usize::try_from(dead_deliveries).unwrap_or(usize::MAX))
}

/// Number of orders and of events.
pub(crate) async fn sizes(evidence: &Evidence) -> Result<(usize, usize), StoreError> {
    let rows = evidence.rows().await?;
    let orders = rows.iter().filter(|row| row.event_type == EventKind::OrderCreated.as_str()).count();
    Ok((orders, rows.len()))
}

/// Returns pending work, at least `limit` items if there are that many; empty if the system is idle.
pub(crate) async fn unsettled(evidence: &Evidence, limit: usize) -> Result<Vec<String>, StoreError> {
    let mut pending = Vec::new();
    // Pending orders are checked first, because they will still cause events.
    let later = evidence.app.tx.now() + chrono::TimeDelta::hours(1);
    for order in evidence.store.view().await?.orders_overdue(later, None, ALL).await? {
        pending.push(format!("order {} is pending", order.id));
    }
    if !pending.is_empty() {
        return Ok(pending);
    }
    for queue in evidence.broker.queues().await.unwrap_or_default() {
        if queue.unacked > 0 || queue.ready > 0 {
            let (name, ready, unacked) = (queue.name, queue.ready, queue.unacked);
            pending.push(format!("queue {name} has {ready} ready and {unacked} unacknowledged messages"));
        }
    }
    pending.extend(webhooks::due(evidence).await?);
    if pending.len() >= limit {
        return Ok(pending);
    }
    let rows = evidence.rows().await?;
    let mut checker = new_checker(evidence, &rows).await?;
    let subscribers = evidence.app.subscribers();
    for row in &rows {
        if checker.is_blocked(row) {
            evidence.faults.cover(|coverage| coverage.situation("event blocked by a FAILED event"));
        } else if row.status.is_pending() {
            pending.push(format!("outbox {} {} is {}", row.event_type, row.event_id, row.status));
        }
        for subscriber in &subscribers {
            let (name, takes) = (subscriber.name(), subscriber.event_types());
            if !takes.contains(&row.event_type.as_str()) {
                continue;
            }
            let record = checker.record(name, &row.event_id);
            // A consumer may have begun to process an event that is not SENT: it reads earlier events from the outbox.
            let is_idle = row.idle_consumers.contains(name);
            let begun = (row.status == OutboxStatus::Sent && !is_idle) || record.is_some();
            if begun && !record.is_some_and(|record| record.status.is_settled()) {
                let status = record.map_or("missing".to_owned(), |record| record.status.to_string());
                pending.push(format!("{name} {} {} is {status}", row.event_type, row.event_id));
            }
        }
        if pending.len() >= limit {
            return Ok(pending);
        }
    }
    pending.extend(archive::unfinished(evidence).await?);
    if pending.is_empty() {
        pending = money::unsettled(&mut checker).await?;
        pending.extend(webhooks::of_deleted(&mut checker).await?);
    }
    Ok(pending)
}

/// Checks every invariant and returns the violations.
pub(crate) async fn violations(evidence: &Evidence) -> Result<Vec<String>, StoreError> {
    let rows = evidence.rows().await?;
    let mut checker = new_checker(evidence, &rows).await?;
    let mut of_order: BTreeMap<(TenantId, i64), Vec<&OutboxRow>> = BTreeMap::new();
    let is_valid = |row: &&OutboxRow| !is_invalid(&row.event_id);
    for row in rows.iter().filter(|row| row.aggregate.kind == "Order").filter(is_valid) {
        of_order.entry((row.aggregate.tenant, row.aggregate.id.number())).or_default().push(row);
    }
    let mut orders: Vec<Order> = Vec::new();
    let (mut counted, mut used) = (parties::CreditTotals::new(), assets::AssetUsage::default());
    for ((tenant, id), rows) in &of_order {
        let Ok(id) = OrderId::try_from(*id) else { continue };
        let Some(order) = checker.view.order_by_id(*tenant, id).await? else {
            checker.violation(format!("order {id} has events, but does not exist"));
            continue;
        };
        history::check(&mut checker, &order, rows).await?;
        effects::check(&mut checker, &order, rows).await?;
        parties::check(&mut checker, &order, rows, &mut counted).await?;
        assets::check(&mut checker, &order, rows, &mut used).await?;
        orders.push(order);
    }
    parties::check_scores(&mut checker, &counted).await?;
    history::check_products(&mut checker, &orders).await?;
    invoices::check(&mut checker).await?;
    money::check(&mut checker, &used).await?;
    client_responses::check(&mut checker).await?;
    log::check(&mut checker).await?;
    invalid_rows::check(&mut checker);
    webhooks::check(&mut checker).await?;
    archive::check(&mut checker).await?;
    Ok(checker.violations)
}

async fn new_checker<'a>(evidence: &'a Evidence, rows: &'a [OutboxRow]) -> Result<Checker<'a>, StoreError> {
    let mut view = evidence.store.view().await?;
    let blocked = match evidence.app.outbox.on_failed() {
        OnFailed::Continue => BTreeSet::new(),
        OnFailed::Hold => view
            .outbox_view()
            .blocked_page(evidence.app.outbox.registry.unordered(), None, None, ALL)
            .await?
            .into_iter()
            .map(|blocked| blocked.effect.aggregate)
            .collect(),
    };
    let dead_letters = view.outbox_view().dead_letters_page(&DeadLetterFilter::default(), None, ALL).await?;
    let dead_letters =
        dead_letters.into_iter().map(|it| ((it.effect.queue.clone(), it.effect.key.clone()), it.effect));
    let mut log: BTreeMap<EventId, Vec<(String, ConsumeRecord)>> = BTreeMap::new();
    let mut lost = BTreeMap::new();
    for it in view.outbox_view().consumed_page(&ConsumedFilter::default(), None, ALL).await? {
        let fact_of_record = fact(it.effect.aggregate.id.number(), &it.effect.event_type, "");
        lost.insert(it.effect.event_id.clone(), fact_of_record);
        log.entry(it.effect.event_id).or_default().push((it.effect.consumer, it.effect.record));
    }
    // A record that was written after its event was archived is the newer one.
    for it in evidence.archived().await?.into_iter().flat_map(|event| event.records) {
        let fact_of_record = fact(it.aggregate.id.number(), &it.event_type, "");
        lost.entry(it.event_id.clone()).or_insert(fact_of_record);
        log.entry(it.event_id).or_default().push((it.consumer, it.record));
    }
    Ok(Checker {
        evidence,
        view,
        rows,
        blocked,
        dead_letters: dead_letters.collect(),
        lost,
        log,
        violations: Vec::new(),
    })
}
