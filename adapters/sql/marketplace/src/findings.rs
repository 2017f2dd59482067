//! Repository of the recorded findings of reconciliations.

use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, Numbered, StoreError};
use handover_sql::{Dialect, Fields, Row, Table, Value, table, values};
use marketplace::ports::{FindingFilter, FindingQueries, FindingRepo, FindingSubject};
use marketplace_domain::{AcknowledgedBy, FindingKind, OrderId, RecordedFinding};

table! {
    FindingTable("reconciliation_findings" by "id"), read row as RecordedFinding,
    write finding as &'a RecordedFinding;
    insert {
        tenant: (tenant(&row))("tenant_id" = tenant_column(finding.tenant)),
        kind: named("kind" = finding.kind.as_str()),
        subject: string("subject" = &finding.subject),
        first_seen: time("first_seen" = finding.first_seen),
    }
    update {
        order: opt_id("order_id" = finding.order.map(OrderId::get)),
        row_id: opt_id("row_id" = finding.row_id),
        detail: string("detail" = &finding.detail),
        state: named("state" = finding.state.as_str()),
        last_seen: time("last_seen" = finding.last_seen),
        acknowledged: (acknowledged(&row))(
            "acknowledged_by" = finding.acknowledged.as_ref().map(|by| by.operator.as_str()),
            "reason" = finding.acknowledged.as_ref().map(|by| by.reason.as_str()),
            "acknowledge_time" = finding.acknowledged.as_ref().map(|by| by.at)
        ),
        closed_time: opt_time("closed_time" = finding.closed_time),
        version: int("version" = finding.version),
    }
}

const COLUMNS: &str = FindingTable::COLUMNS;

/// The number of open findings of each kind.
pub(crate) const OPEN_BY_KIND: &str =
    "SELECT kind, COUNT(*) AS findings FROM reconciliation_findings WHERE state = 'OPEN' GROUP BY kind";

/// A unique key does not compare NULL, so that a finding without a tenant has the number 0, which is no tenant.
fn tenant_column(tenant: Option<TenantId>) -> i64 {
    tenant.map_or(0, TenantId::get)
}

fn tenant(row: &Fields<'_>) -> Result<Option<TenantId>, StoreError> {
    if row.int("tenant_id")? == 0 { Ok(None) } else { row.id("tenant_id").map(Some) }
}

fn acknowledged(row: &Fields<'_>) -> Result<Option<AcknowledgedBy>, StoreError> {
    let Some(operator) = row.opt_string("acknowledged_by")? else { return Ok(None) };
    Ok(Some(AcknowledgedBy { operator, reason: row.string("reason")?, at: row.time("acknowledge_time")? }))
}

/// The query for the finding with a subject.
pub(crate) fn by_subject(tenant: Option<TenantId>, kind: FindingKind, subject: &str) -> (String, Vec<Value>) {
    let sql = format!(
        "SELECT id, {COLUMNS} FROM reconciliation_findings WHERE tenant_id = ? AND kind = ? AND subject = ?"
    );
    (sql, values![tenant_column(tenant), kind.as_str(), subject])
}

/// One page of findings.
pub(crate) fn page(
    dialect: &dyn Dialect,
    filter: FindingFilter,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    let index = match (filter.tenant, filter.state) {
        (Some(_), Some(_)) => dialect.index("idx_findings_page"),
        (Some(_), None) => dialect.index("idx_findings_tenant"),
        (None, Some(_)) => dialect.index("idx_findings_state"),
        (None, None) => String::new(),
    };
    let mut sql = format!("SELECT id, {COLUMNS} FROM reconciliation_findings {index} WHERE id < ?");
    let mut values = values![before.unwrap_or(i64::MAX)];
    if let Some(tenant) = filter.tenant {
        sql.push_str(" AND tenant_id = ?");
        values.push(tenant.get().into());
    }
    if let Some(state) = filter.state {
        sql.push_str(" AND state = ?");
        values.push(state.as_str().into());
    }
    sql.push_str(" ORDER BY id DESC LIMIT ?");
    values.push(most.into());
    (sql, values)
}

/// One page of the open findings, without the values that other versions may have written.
pub(crate) fn open_subjects(dialect: &dyn Dialect, before: Option<i64>, most: u32) -> (String, Vec<Value>) {
    let index = dialect.index("idx_findings_state");
    let sql = format!(
        "SELECT id, tenant_id, subject, order_id FROM reconciliation_findings {index} \
         WHERE state = 'OPEN' AND id < ? ORDER BY id DESC LIMIT ?"
    );
    (sql, values![before.unwrap_or(i64::MAX), most])
}

fn open_subject(row: &Row) -> Result<Numbered<FindingSubject>, StoreError> {
    let row = FindingTable::fields(row);
    let tenant = tenant(&row)?;
    let effect = FindingSubject { tenant, subject: row.string("subject")?, order: row.opt_id("order_id")? };
    Ok(Numbered { id: row.int("id")?, effect })
}

#[async_trait]
impl FindingQueries for MarketSession {
    async fn finding_by_id(&mut self, id: i64) -> Result<Option<Numbered<RecordedFinding>>, StoreError> {
        let sql = format!("SELECT id, {COLUMNS} FROM reconciliation_findings WHERE id = ?");
        self.fetch_one(&sql, values![id]).await?.as_ref().map(FindingTable::numbered).transpose()
    }

    async fn finding_by_subject(
        &mut self,
        tenant: Option<TenantId>,
        kind: FindingKind,
        subject: &str,
    ) -> Result<Option<Numbered<RecordedFinding>>, StoreError> {
        let (sql, values) = by_subject(tenant, kind, subject);
        self.fetch_one(&sql, values).await?.as_ref().map(FindingTable::numbered).transpose()
    }

    async fn findings_page(
        &mut self,
        filter: FindingFilter,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<RecordedFinding>>, StoreError> {
        let (sql, values) = page(self.dialect(), filter, before, most);
        self.fetch(&sql, values).await?.iter().map(FindingTable::numbered).collect()
    }

    async fn subjects_of_open_findings(
        &mut self,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<FindingSubject>>, StoreError> {
        let (sql, values) = open_subjects(self.dialect(), before, most);
        self.fetch(&sql, values).await?.iter().map(open_subject).collect()
    }

    async fn open_findings(&mut self) -> Result<Vec<(FindingKind, u64)>, StoreError> {
        let mut counts = Vec::new();
        for row in self.fetch(OPEN_BY_KIND, values![]).await? {
            let row = row.of("reconciliation_findings", "kind");
            match row.named("kind") {
                Ok(kind) => counts.push((kind, row.int("findings")?.unsigned_abs())),
                // Another version wrote this kind.
                Err(StoreError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        counts.sort_unstable();
        Ok(counts)
    }
}

#[async_trait]
impl FindingRepo for MarketSession {
    async fn insert_finding(&mut self, finding: &RecordedFinding) -> Result<(), StoreError> {
        self.insert_into::<FindingTable>(FindingTable::values(finding), "").await
    }

    async fn advance_finding(&mut self, id: i64, after: &RecordedFinding) -> Result<Changed, StoreError> {
        let sql =
            format!("UPDATE reconciliation_findings SET {} WHERE id = ? AND version = ?", FindingTable::SET);
        let mut values = FindingTable::updated_values(after);
        values.extend(values![id, after.version - 1]);
        Ok(Changed::of(self.execute(&sql, values).await?))
    }
}
