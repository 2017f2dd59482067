//! Reconciliation: compares products, orders, payments, refunds, outbox rows, confirms, consume logs and effects within a
//! time window.
//!
//! **Invariant:** an event in flight is not a finding. An event counts as lost only if it was confirmed before the
//! grace period and has no consume-log record.

mod compare;
mod coverage;
mod findings;
mod record;
mod repair;
mod report;

pub use findings::{Finding, Repair};
pub use marketplace_domain::FindingKind;
pub use report::{MAX_FINDINGS, Reconciliation};

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{Envelope, EventId, TenantId};
use marketplace_domain::ReportState;

use super::Operations;
use crate::consistency::{ProductScan, mismatches_of_invoice};
use crate::ports::{EffectKind, GatewayReportFilter, InvoiceFilter};
use compare::{Criteria, Subscriptions, compare};
use coverage::{Coverage, Scanned};
use handover_outbox::operations::{Action, OperationError, Operator, Reason, count, present_fields, rfc3339};
use handover_outbox::ports::{
    DeadLetter, DeadLetterFilter, DeadLetterStatus, Numbered, OutboxFilter, StoreError, UnreadableRow,
};
use repair::RepairContext;

/// Default time that a confirmed event may be in flight before it counts as lost.
pub const GRACE: Duration = Duration::from_secs(60);

/// Number of the newest effects of each kind that are compared with their orders. Effects without an order cannot
/// be found through the orders of the window. The number bounds the scan of these tables, which grow indefinitely.
const NEWEST_EFFECTS: u32 = 10_000;

/// Number of the newest products that are compared with their orders, in addition to the products of the compared
/// orders. A product changes without a change of its order only by SQL, so the window of orders does not find it.
const NEWEST_PRODUCTS: usize = 10_000;

/// Number of the newest open dead letters that are compared with the outbox.
const NEWEST_DEAD_LETTERS: usize = 10_000;

/// Number of the newest outbox rows that are searched for unreadable values. Regular calls find an unreadable row while
/// it is among the newest.
const NEWEST_EVENTS: i64 = 100_000;

/// Number of the newest invoices among which those that were generated within the window are compared.
const NEWEST_INVOICES: usize = 10_000;

/// Orders or dead letters per page.
const BATCH: u32 = 200;

/// A reconciliation request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconcile {
    /// Tenant; `None`: the caller's tenant, or all tenants for the platform.
    pub tenant: Option<TenantId>,
    /// Start of the window, compared with the update time of orders.
    pub since: DateTime<Utc>,
    /// End of the window, exclusive.
    pub until: DateTime<Utc>,
    /// Time that a confirmed event may be in flight.
    pub grace: Duration,
    /// Whether findings are repaired.
    pub repair: bool,
    pub reason: Option<Reason>,
}

impl Operations {
    /// Compares the orders of a window and repairs the findings if requested: a missing event is appended, a failed or lost
    /// event is redriven, and an event whose effect is missing is applied again. No event takes effect twice: if its effect
    /// exists, only the missing record is written. A payment or refund whose order did not change with it is finished, and
    /// captured money that buys nothing is refunded, each once and only if the outcome is certain.
    ///
    /// Also reports effects without an order, dead letters without an event, unreadable outbox rows, and discrepancies in
    /// the ledger, open reports of the gateway, and invoices of the window that contradict their lines or the completed
    /// orders of their month; these are not repaired.
    ///
    /// The findings are recorded ([`Operations::findings`]): a new one is `OPEN`. Unless there are more findings than
    /// returned, recorded findings whose rows were compared again and which were not found become `RESOLVED`.
    pub async fn reconcile(
        &self,
        operator: &Operator,
        command: Reconcile,
    ) -> Result<Reconciliation, OperationError> {
        let tenant = operator.visible(command.tenant)?;
        let now = self.tx.now();
        let grace = TimeDelta::from_std(command.grace).unwrap_or(TimeDelta::MAX);
        let subscriptions = Subscriptions::of(self).await?;
        let consumers = self.consumers.clone();
        let criteria = Criteria { subscriptions, consumers, rules: self.handlers.points, now, grace };
        let context = RepairContext { operator, reason: command.reason.as_ref() };
        let mut report = Reconciliation {
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
        let mut coverage = Coverage::of_window(now, (command.since, command.until), grace);
        let mut after = None;
        let mut products = ProductScan::default();
        loop {
            let mut view = self.tx.view().await?;
            let orders = view.orders_changed(tenant, command.since, command.until, after, BATCH).await?;
            let Some(last) = orders.last() else { break };
            after = Some((last.update_time, last.id));
            let mut found = compare(view.as_mut(), &orders, &criteria, &mut report).await?;
            let of_products = products.compare_orders(view.as_mut(), &orders).await?;
            found.extend(
                of_products.iter().map(|(tenant, id, mismatch)| Finding::of_product(*tenant, *id, mismatch)),
            );
            // Release the view before a unit of work begins: a task uses at most one connection of the store.
            drop(view);
            for mut finding in found {
                if command.repair {
                    finding.repair = repair::repair(self, context, &criteria.subscriptions, &finding).await?;
                }
                add_finding(&mut report, finding);
            }
        }
        for mut finding in self.newest_products(tenant, products, &mut coverage).await? {
            if command.repair {
                finding.repair = repair::repair(self, context, &criteria.subscriptions, &finding).await?;
            }
            add_finding(&mut report, finding);
        }
        self.add_unrepaired(tenant, &mut report, &mut coverage).await?;
        for finding in self.different_invoices(tenant, (command.since, command.until), &mut coverage).await? {
            add_finding(&mut report, finding);
        }
        self.record_findings(&report.findings, now).await?;
        if !report.more {
            self.resolve_findings(tenant, &coverage).await?;
        }
        audit_action(&command).record(&self.tx, operator, tenant, count(report.findings.len())).await?;
        Ok(report)
    }

    /// Adds the findings that are not repaired and do not depend on the window.
    async fn add_unrepaired(
        &self,
        tenant: Option<TenantId>,
        report: &mut Reconciliation,
        coverage: &mut Coverage,
    ) -> Result<(), StoreError> {
        for kind in EffectKind::ALL {
            let mut view = self.tx.view().await?;
            for effect in view.effects_without_order(kind, tenant, NEWEST_EFFECTS).await? {
                add_finding(report, Finding::without_order(kind, effect));
            }
        }
        for finding in self.dead_letters_without_event(tenant, coverage).await? {
            add_finding(report, finding);
        }
        let limit = u32::try_from(MAX_FINDINGS + 1).unwrap_or(u32::MAX);
        let open =
            GatewayReportFilter { tenant, state: Some(ReportState::Open), ..GatewayReportFilter::default() };
        for gateway_report in self.tx.view().await?.gateway_reports_page(open, None, limit).await? {
            add_finding(report, Finding::of_report(gateway_report));
        }
        for row in self.unreadable_rows(tenant, limit, coverage).await? {
            add_finding(report, Finding::of_unreadable(row));
        }
        for discrepancy in &self.tx.view().await?.ledger_inconsistencies(tenant, limit).await? {
            add_finding(report, Finding::of_ledger(discrepancy));
        }
        Ok(())
    }

    /// Findings for the newest products, and for all compared products without an order.
    async fn newest_products(
        &self,
        tenant: Option<TenantId>,
        mut products: ProductScan,
        coverage: &mut Coverage,
    ) -> Result<Vec<Finding>, StoreError> {
        let mut found = Vec::new();
        let mut before = None;
        let mut scanned = 0;
        let mut view = self.tx.view().await?;
        while scanned < NEWEST_PRODUCTS {
            let page = view.newest_products(tenant, before, BATCH).await?;
            let Some(last) = page.last() else {
                coverage.products = Scanned::ALL;
                break;
            };
            before = Some(last.id);
            coverage.products = Scanned::down_to(last.id.get());
            scanned += page.len();
            found.extend(products.compare_products(view.as_mut(), &page).await?);
        }
        found.extend(products.without_order(view.as_mut()).await?);
        Ok(found.iter().map(|(tenant, id, mismatch)| Finding::of_product(*tenant, *id, mismatch)).collect())
    }

    /// Findings for the invoices that changed within the window.
    async fn different_invoices(
        &self,
        tenant: Option<TenantId>,
        (since, until): (DateTime<Utc>, DateTime<Utc>),
        coverage: &mut Coverage,
    ) -> Result<Vec<Finding>, StoreError> {
        let mut found = Vec::new();
        let mut before = None;
        let mut scanned = 0;
        let mut view = self.tx.view().await?;
        while scanned < NEWEST_INVOICES {
            let filter = InvoiceFilter { tenant, status: None };
            let page = view.invoices_page(filter, before, BATCH).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            scanned += page.len();
            for invoice in page.iter().filter(|it| since <= it.update_time && it.update_time < until) {
                coverage.invoices.insert(invoice.id.get());
                let mismatches = mismatches_of_invoice(view.as_mut(), invoice).await?;
                found.extend(mismatches.iter().map(|it| Finding::of_invoice(invoice, it)));
            }
        }
        Ok(found)
    }

    /// Findings for the newest open dead letters whose event has no outbox row.
    async fn dead_letters_without_event(
        &self,
        tenant: Option<TenantId>,
        coverage: &mut Coverage,
    ) -> Result<Vec<Finding>, StoreError> {
        let filter =
            DeadLetterFilter { tenant, status: Some(DeadLetterStatus::Open), ..DeadLetterFilter::default() };
        let mut found = Vec::new();
        let mut before = None;
        let mut scanned = 0;
        let mut view = self.tx.view().await?;
        while scanned < NEWEST_DEAD_LETTERS {
            let dead_letters = view.outbox_view().dead_letters_page(&filter, before, BATCH).await?;
            let Some(last) = dead_letters.last() else {
                coverage.dead_letters = Scanned::ALL;
                break;
            };
            before = Some(last.id);
            coverage.dead_letters = Scanned::down_to(last.id);
            scanned += dead_letters.len();
            let named: Vec<(Numbered<DeadLetter>, EventId)> = dead_letters
                .into_iter()
                .filter_map(|dead_letter| {
                    let event = Envelope::parse(&dead_letter.effect.body).ok()?.event_id;
                    Some((dead_letter, event))
                })
                .collect();
            let events: Vec<EventId> = named.iter().map(|(_, event)| event.clone()).collect();
            let rows = view.outbox_view().outbox_by_event(&events).await?;
            let archived = view.outbox_view().archived_by_event(&events).await?;
            let archived = archived.iter().map(|event| &event.event_id);
            let existing: BTreeSet<&EventId> = rows.iter().map(|row| &row.event_id).chain(archived).collect();
            let missing = named.into_iter().filter(|(_, event)| !existing.contains(event));
            found.extend(missing.map(|(dead_letter, event)| Finding::of_dead_letter(dead_letter, event)));
        }
        Ok(found)
    }

    /// Returns the unreadable rows among the newest rows of the outbox.
    async fn unreadable_rows(
        &self,
        tenant: Option<TenantId>,
        limit: u32,
        coverage: &mut Coverage,
    ) -> Result<Vec<UnreadableRow>, StoreError> {
        let mut view = self.tx.view().await?;
        let newest = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 1).await?;
        let after = newest.first().map(|row| row.id.saturating_sub(NEWEST_EVENTS));
        coverage.outbox_rows = after.map_or(Scanned::ALL, |after| Scanned::down_to(after.saturating_add(1)));
        view.outbox_view().unreadable_rows(tenant, after, limit).await
    }
}

/// Audit action of the call. Each repaired finding has its own entry in addition.
fn audit_action(command: &Reconcile) -> Action {
    let name = if command.repair { "reconciliation.repair" } else { "reconciliation.read" };
    let selection = present_fields([
        ("from", Some(rfc3339(command.since))),
        ("to", Some(rfc3339(command.until))),
        ("tenantId", command.tenant.map(|tenant| tenant.get().into())),
    ]);
    Action { name, selection, reason: command.reason.clone() }
}

fn add_finding(report: &mut Reconciliation, finding: Finding) {
    metrics::counter!("consistency.event.missing")
        .increment(u64::from(finding.kind == FindingKind::MissingEvent));
    if finding.repair.is_some() {
        metrics::counter!("consistency.event.repaired").increment(1);
    }
    if report.findings.len() < MAX_FINDINGS {
        report.findings.push(finding);
    } else {
        report.more = true;
    }
}
