//! Reconciliation: compares products, orders, payments, refunds, outbox rows, confirms, consume logs and effects within a
//! time window.
//!
//! **Invariant:** an event in flight is not a finding. An event counts as lost only if it was confirmed before the
//! grace period and has no consume-log record.

mod compare;
mod continuous;
mod coverage;
mod findings;
mod ledger;
mod outside;
mod record;
mod repair;
mod report;

pub use continuous::{ReconcileContinuously, Scope};
pub use findings::{Finding, Repair};
pub use marketplace_domain::FindingKind;
pub use report::{MAX_FINDINGS, Reconciliation};

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{Envelope, EventId, TenantId};
use marketplace_domain::{Invoice, InvoiceId, OrderId, ReportState};
use tracing::warn;

use super::Operations;
use crate::consistency::{ProductScan, mismatches_of_invoice};
use crate::ports::{EffectKind, GatewayReportFilter, InvoiceFilter};
use compare::{Criteria, Subscriptions, compare};
use continuous::{Pace, Run};
use coverage::{Coverage, OrderKey, Scanned};
use handover_outbox::operations::{Action, OperationError, Operator, Reason, count, present_fields, rfc3339};
use handover_outbox::ports::{
    DeadLetter, DeadLetterFilter, DeadLetterStatus, Numbered, OutboxFilter, StoreError, UnreadableRow,
};
use handover_outbox::webhooks::WebhookRetention;
use repair::{RepairContext, Repairs};

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

/// What a run has compared so far.
struct Compared {
    coverage: Coverage,
    products: ProductScan,
}

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
    /// Also reports orders that cannot be compared because a row about them cannot be read, effects without an order, dead letters
    /// without an event, unreadable outbox rows, and discrepancies in the ledger, open reports of the gateway, and invoices of the
    /// window that contradict their lines, the completed orders of their month, their payments or the ledger; these are not
    /// repaired. The missing events of these invoices are appended.
    ///
    /// The findings are recorded ([`Operations::findings`]): a new one is `OPEN`. Unless there are more findings than
    /// returned, recorded findings whose rows were compared again and which were not found become `RESOLVED`.
    pub async fn reconcile(
        &self,
        operator: &Operator,
        command: Reconcile,
    ) -> Result<Reconciliation, OperationError> {
        let tenant = operator.visible(command.tenant)?;
        let grace = TimeDelta::from_std(command.grace).unwrap_or(TimeDelta::MAX);
        let repairs = if command.repair { Repairs::All } else { Repairs::None };
        let by = RepairContext { operator, reason: command.reason.as_ref(), repairs };
        let window = (command.since, command.until);
        let run = Run { by, tenant, window, grace, lost_after: grace, scope: Scope::Window, batch: BATCH };
        let report = self.run(&run, &mut Pace::unlimited()).await?;
        audit_action(&command).record(&self.tx, operator, tenant, count(report.findings.len())).await?;
        Ok(report)
    }

    async fn run(&self, run: &Run<'_>, pace: &mut Pace) -> Result<Reconciliation, StoreError> {
        let now = self.tx.now();
        let Run { tenant, window: (since, until), grace, lost_after, .. } = *run;
        let subscriptions = Subscriptions::of(self).await?;
        let consumers = self.consumers.clone();
        let rules = self.handlers.points;
        let criteria = Criteria { subscriptions, consumers, rules, now, grace, lost_after };
        let mut report = Reconciliation {
            since,
            until,
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
        let mut compared = Compared {
            coverage: Coverage::of_window(now, run.window, grace),
            products: ProductScan::default(),
        };
        let mut after = None;
        while !pace.is_stopped() {
            let changed =
                self.tx.view().await?.orders_changed(tenant, since, until, after, run.batch).await?;
            let Some(last) = changed.last() else { break };
            after = Some(last.position());
            let orders: Vec<OrderKey> = changed.iter().map(|order| (order.tenant, order.id)).collect();
            self.compare_orders(run, &criteria, &orders, &mut compared, &mut report).await?;
            pace.rest(&self.tx).await;
        }
        let mut invoices = BTreeSet::new();
        if run.scope == Scope::Complete {
            let (orders, of_findings) = self.subjects_of_findings(tenant, &mut compared.coverage).await?;
            invoices = of_findings;
            for orders in orders.chunks(BATCH as usize) {
                self.compare_orders(run, &criteria, orders, &mut compared, &mut report).await?;
                pace.rest(&self.tx).await;
            }
        }
        let Compared { mut coverage, mut products } = compared;
        if run.scope != Scope::Orders {
            let found = self.newest_products(tenant, &mut products, &mut coverage, pace).await?;
            self.process(run, &criteria, found, &mut report).await?;
            let found = self.newest_rows(tenant, &mut coverage, pace).await?;
            self.process(run, &criteria, found, &mut report).await?;
            let found = self.different_invoices(run, &invoices, &mut coverage).await?;
            self.process(run, &criteria, found, &mut report).await?;
        }
        coverage.left_out_products.extend(products.left_out());
        if !report.more && !pace.is_stopped() {
            self.resolve_findings(tenant, &coverage).await?;
        }
        Ok(report)
    }

    /// Compares one page of orders and their products. If a row about them cannot be read, compares each half of the page, so that
    /// only the order of that row is not compared: it is a finding.
    async fn compare_orders(
        &self,
        run: &Run<'_>,
        criteria: &Criteria,
        orders: &[OrderKey],
        compared: &mut Compared,
        report: &mut Reconciliation,
    ) -> Result<(), StoreError> {
        let mut parts = vec![orders];
        while let Some(part) = parts.pop() {
            let result = self.compare_page(run, criteria, part, &mut compared.products, report).await;
            match (result, part) {
                (Err(error @ StoreError::Corrupt { .. }), [order]) => {
                    compared.coverage.unreadable.insert(*order);
                    let found = vec![Finding::of_unreadable_order(*order, &error)];
                    self.process(run, criteria, found, report).await?;
                }
                (Err(StoreError::Corrupt { .. }), [_, _, ..]) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                (result, _) => result?,
            }
        }
        Ok(())
    }

    async fn compare_page(
        &self,
        run: &Run<'_>,
        criteria: &Criteria,
        orders: &[OrderKey],
        products: &mut ProductScan,
        report: &mut Reconciliation,
    ) -> Result<(), StoreError> {
        let mut view = self.tx.view().await?;
        let ids: Vec<OrderId> = orders.iter().map(|(_, id)| *id).collect();
        let mut orders = view.orders_by_id(None, &ids).await?;
        orders.sort_by_key(|order| (order.update_time, order.id));
        let deleted_before = WebhookRetention::deleted_before(self.tx.now(), self.keep_deliveries);
        // Orders that are compared again after an error are counted once.
        let mut counted = Reconciliation { findings: Vec::new(), ..*report };
        let mut found = compare(view.as_mut(), &orders, criteria, deleted_before, &mut counted).await?;
        let of_products = products.compare_orders(view.as_mut(), &orders).await?;
        found.extend(
            of_products.iter().map(|(tenant, id, mismatch)| Finding::of_product(*tenant, *id, mismatch)),
        );
        // Release the view before a unit of work begins: a task uses at most one connection of the store.
        drop(view);
        self.process(run, criteria, found, report).await?;
        let findings = std::mem::take(&mut report.findings);
        *report = Reconciliation { findings, more: report.more, ..counted };
        Ok(())
    }

    /// Repairs findings if requested, records them and adds them to the report. A finding whose repair fails stays
    /// unrepaired; an outage of the database ends the run after the findings are recorded: a repair may exceed a limit of the
    /// database each time.
    async fn process(
        &self,
        run: &Run<'_>,
        criteria: &Criteria,
        mut found: Vec<Finding>,
        report: &mut Reconciliation,
    ) -> Result<(), StoreError> {
        let unreported = found.iter().filter(|it| it.kind == FindingKind::NotReported);
        let unreported: BTreeSet<_> = unreported.map(|it| (it.tenant, it.order)).collect();
        let mut outage = None;
        for finding in &mut found {
            // Whether this money moved is not certain.
            let is_uncertain = finding.moves_money() && unreported.contains(&(finding.tenant, finding.order));
            if is_uncertain && run.by.repairs == Repairs::Automatic {
                continue;
            }
            match repair::repair(self, run.by, &criteria.subscriptions, finding).await {
                Ok(repair) => finding.repair = repair,
                Err(error) if error.is_outage() => {
                    outage = Some(error);
                    break;
                }
                Err(error) => log_failed_repair(finding, &error),
            }
            log_repair(finding);
        }
        self.record_findings(&found, criteria.now).await?;
        if let Some(error) = outage {
            return Err(error);
        }
        for finding in found {
            add_finding(report, finding);
        }
        Ok(())
    }

    /// Findings that are not repaired and do not depend on the window.
    async fn newest_rows(
        &self,
        tenant: Option<TenantId>,
        coverage: &mut Coverage,
        pace: &mut Pace,
    ) -> Result<Vec<Finding>, StoreError> {
        let mut found = Vec::new();
        for kind in EffectKind::ALL {
            let effects = self.tx.view().await?.effects_without_order(kind, tenant, NEWEST_EFFECTS).await?;
            found.extend(effects.into_iter().map(|effect| Finding::without_order(kind, effect)));
            pace.rest(&self.tx).await;
        }
        found.extend(self.dead_letters_without_event(tenant, coverage).await?);
        pace.rest(&self.tx).await;
        let limit = u32::try_from(MAX_FINDINGS + 1).unwrap_or(u32::MAX);
        let open =
            GatewayReportFilter { tenant, state: Some(ReportState::Open), ..GatewayReportFilter::default() };
        let reports = self.tx.view().await?.gateway_reports_page(open, None, limit).await?;
        found.extend(reports.into_iter().map(Finding::of_report));
        found.extend(
            self.unreadable_rows(tenant, limit, coverage).await?.into_iter().map(Finding::of_unreadable),
        );
        pace.rest(&self.tx).await;
        let (inconsistencies, is_complete) = self.ledger_inconsistencies(tenant, pace).await?;
        found.extend(inconsistencies.iter().map(Finding::of_ledger));
        coverage.has_reports_and_ledger = is_complete;
        Ok(found)
    }

    /// Findings for the newest products, and for all compared products without an order.
    async fn newest_products(
        &self,
        tenant: Option<TenantId>,
        products: &mut ProductScan,
        coverage: &mut Coverage,
        pace: &mut Pace,
    ) -> Result<Vec<Finding>, StoreError> {
        let mut found = Vec::new();
        let mut before = None;
        let mut scanned = 0;
        while scanned < NEWEST_PRODUCTS && !pace.is_stopped() {
            let mut view = self.tx.view().await?;
            let page = view.newest_products(tenant, before, BATCH).await?;
            let Some(last) = page.last() else {
                coverage.products = Scanned::ALL;
                break;
            };
            before = Some(last.id);
            coverage.products = Scanned::down_to(last.id.get());
            scanned += page.len();
            found.extend(products.compare_products(view.as_mut(), &page).await?);
            drop(view);
            pace.rest(&self.tx).await;
        }
        found.extend(products.without_order(self.tx.view().await?.as_mut()).await?);
        Ok(found.iter().map(|(tenant, id, mismatch)| Finding::of_product(*tenant, *id, mismatch)).collect())
    }

    /// Findings for the invoices that changed within the window, and for these.
    async fn different_invoices(
        &self,
        Run { tenant, window: (since, until), .. }: &Run<'_>,
        of_findings: &BTreeSet<InvoiceId>,
        coverage: &mut Coverage,
    ) -> Result<Vec<Finding>, StoreError> {
        let mut found = Vec::new();
        let mut before = None;
        let mut scanned = 0;
        let mut view = self.tx.view().await?;
        while scanned < NEWEST_INVOICES {
            let filter = InvoiceFilter { tenant: *tenant, status: None };
            let page = view.invoices_page(filter, before, BATCH).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.id);
            scanned += page.len();
            let is_in_window = |it: &&Invoice| (since..until).contains(&&it.update_time);
            for invoice in page.iter().filter(|it| is_in_window(it) || of_findings.contains(&it.id)) {
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

fn log_repair(finding: &Finding) {
    let Some(repair) = finding.repair else { return };
    let order = finding.order.map(|order| order.to_string());
    let what = &finding.what;
    if finding.kind == FindingKind::MissingEvent {
        warn!(
            code = "consistency.event-appended",
            orderId = order,
            eventType = finding.event_type,
            what,
            "[OrderAssetConsistency] [ALERT] event was missing in the outbox; appended"
        );
    } else {
        warn!(code = "consistency.finding-repaired", kind = %finding.kind, orderId = order, what, repair = repair.as_str(),
            "[OrderAssetConsistency] [ALERT] finding repaired");
    }
}

fn log_failed_repair(finding: &Finding, error: &StoreError) {
    let order = finding.order.map(|order| order.to_string());
    warn!(code = "consistency.repair-failed", %error, kind = %finding.kind, orderId = order, what = finding.what,
        "[OrderAssetConsistency] repair failed; the finding stays open, the next run tries again");
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
