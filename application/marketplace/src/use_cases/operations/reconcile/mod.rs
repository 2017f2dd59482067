//! Reconciliation: business row, outbox row, confirm, consume log, effect, compared over a window of time (spec §6).
//!
//! **Invariant:** what is on its way is no finding: an event counts as lost only where it was confirmed longer ago than
//! the grace, and nobody has recorded it.

mod compare;
mod findings;
mod mend;

pub use findings::{Finding, FindingKind, Mended};

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{Envelope, EventId, TenantId};

use crate::ports::EffectKind;
use crate::use_cases::UseCaseError;
use crate::{App, CommandContext};
use compare::{Comparison, Consumers};
use handover_outbox::operations::{Action, Reason, asked, count, rfc3339};
use handover_outbox::ports::{DeadLetter, DeadLetterFilter, DeadLetterStatus};
use mend::By;

/// The greatest number of findings that one call tells; [`Reconciliation::more`] says that there were more.
pub const MAX_FINDINGS: usize = 1_000;

/// How long a confirmed event may be on its way to a consumer before it counts as lost.
pub const GRACE: Duration = Duration::from_secs(60);

/// How many of the newest effects of each kind are compared with the orders they name. Whoever has no order is found by no
/// order, and the tables grow without end.
const NEWEST_EFFECTS: u32 = 10_000;

/// How many of the newest open dead letters are compared with the outbox.
const NEWEST_LETTERS: usize = 10_000;

/// How many orders or dead letters are read at a time.
const BATCH: u32 = 200;

/// What is to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconcile {
    /// Of which tenant; the caller's, or all of them for the platform.
    pub tenant: Option<TenantId>,
    /// Orders that changed from this moment on.
    pub since: DateTime<Utc>,
    /// And before this one.
    pub until: DateTime<Utc>,
    /// How long a confirmed event may be on its way.
    pub grace: Duration,
    /// Whether what is missing is sent again.
    pub repair: bool,
    /// Why.
    pub reason: Option<Reason>,
}

/// What the comparison says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciliation {
    /// From when.
    pub since: DateTime<Utc>,
    /// Until when.
    pub until: DateTime<Utc>,
    /// How many orders were looked at.
    pub orders: u64,
    /// How many events of them there are in the outbox.
    pub events: u64,
    /// How many of these the broker has confirmed.
    pub confirmed: u64,
    /// How many times one of them was applied by a consumer.
    pub consumed: u64,
    /// How many times it can be seen that it took effect.
    pub effects: u64,
    /// What is on its way: events that are to be published, and consumptions that are to come or are tried again.
    pub pending: u64,
    /// Consumptions that are parked for a person.
    pub parked: u64,
    /// What is not as it should be, at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// Whether there is more.
    pub more: bool,
}

impl Reconciliation {
    /// Whether everything is as it should be, or was mended.
    pub fn is_sound(&self) -> bool {
        !self.more && self.findings.iter().all(|finding| finding.mended.is_some())
    }

    /// How many findings are of a kind.
    pub fn count(&self, kind: FindingKind) -> usize {
        self.findings.iter().filter(|finding| finding.kind == kind).count()
    }
}

/// Compares, and mends where that was asked for: a missing event is announced, one that was given up or lost is sent
/// again, and an effect that is gone is applied again. Nothing is applied twice: what has an effect is only written down.
pub async fn reconcile(
    app: &App,
    context: &CommandContext,
    command: Reconcile,
) -> Result<Reconciliation, UseCaseError> {
    let operator = context.operator()?;
    let tenant = operator.visible(command.tenant)?;
    let now = app.now();
    let grace = TimeDelta::from_std(command.grace).unwrap_or(TimeDelta::MAX);
    let consumers = Consumers::of(app).await?;
    let by = By { operator: &operator, reason: command.reason.as_ref() };
    let mut told = Reconciliation {
        since: command.since,
        until: command.until,
        orders: 0,
        events: 0,
        confirmed: 0,
        consumed: 0,
        effects: 0,
        pending: 0,
        parked: 0,
        findings: Vec::new(),
        more: false,
    };
    let mut after = None;
    loop {
        let mut view = app.view().await?;
        let orders = view.orders_changed(tenant, command.since, command.until, after, BATCH).await?;
        let Some(last) = orders.last() else { break };
        after = Some((last.update_time, last.id));
        let mut found = Vec::new();
        for order in &orders {
            let comparison = Comparison { order, consumers: &consumers, rules: app.rules.points, now, grace };
            found.extend(comparison.run(view.as_mut(), &mut told).await?);
        }
        // A view is given back before a unit is asked for: one task holds one of the store's connections at a time.
        drop(view);
        for mut finding in found {
            if command.repair {
                finding.mended = mend::mend(app, by, &consumers, &finding).await?;
            }
            keep(&mut told, finding);
        }
    }
    for kind in EffectKind::ALL {
        let mut view = app.view().await?;
        for effect in view.effects_without_order(kind, tenant, NEWEST_EFFECTS).await? {
            keep(&mut told, Finding::without_order(kind, effect));
        }
    }
    for finding in letters_without_event(app, tenant).await? {
        keep(&mut told, finding);
    }
    let limit = u32::try_from(MAX_FINDINGS + 1).unwrap_or(u32::MAX);
    for flaw in &app.view().await?.ledger_flaws(tenant, limit).await? {
        keep(&mut told, Finding::of_ledger(flaw));
    }
    call(&command).told(&app.outbox, &operator, tenant, count(told.findings.len())).await?;
    Ok(told)
}

/// The open dead letters whose event has no outbox row, among the newest.
async fn letters_without_event(app: &App, tenant: Option<TenantId>) -> Result<Vec<Finding>, UseCaseError> {
    let filter =
        DeadLetterFilter { tenant, status: Some(DeadLetterStatus::Open), ..DeadLetterFilter::default() };
    let (mut found, mut before, mut looked_at) = (Vec::new(), None, 0);
    let mut view = app.view().await?;
    while looked_at < NEWEST_LETTERS {
        let letters = view.outbox_view().dead_letters_page(&filter, before, BATCH).await?;
        let Some(last) = letters.last() else { break };
        before = Some(last.id);
        looked_at += letters.len();
        let named: Vec<(DeadLetter, EventId)> = letters
            .into_iter()
            .filter_map(|letter| Some((Envelope::parse(&letter.effect.body).ok()?.event_id, letter.effect)))
            .map(|(event, letter)| (letter, event))
            .collect();
        let events: Vec<EventId> = named.iter().map(|(_, event)| event.clone()).collect();
        let rows = view.outbox_view().outbox_by_event(&events).await?;
        let known: BTreeSet<&EventId> = rows.iter().map(|row| &row.event_id).collect();
        let unknown = named.into_iter().filter(|(_, event)| !known.contains(event));
        found.extend(unknown.map(|(letter, event)| Finding::of_letter(letter, event)));
    }
    Ok(found)
}

/// The call as the audit log names it, beside each finding that it mended.
fn call(command: &Reconcile) -> Action {
    let name = if command.repair { "reconciliation.repair" } else { "reconciliation.look" };
    let selection = asked([
        ("from", Some(rfc3339(command.since))),
        ("to", Some(rfc3339(command.until))),
        ("tenantId", command.tenant.map(|tenant| tenant.get().into())),
    ]);
    Action { name, selection, reason: command.reason.clone() }
}

fn keep(told: &mut Reconciliation, finding: Finding) {
    metrics::counter!("consistency.event.missing")
        .increment(u64::from(finding.kind == FindingKind::MissingEvent));
    if finding.mended.is_some() {
        metrics::counter!("consistency.event.repaired").increment(1);
    }
    if told.findings.len() < MAX_FINDINGS {
        told.findings.push(finding);
    } else {
        told.more = true;
    }
}
