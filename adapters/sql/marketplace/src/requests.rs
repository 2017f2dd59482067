//! Requests with an idempotency key.

use crate::session::MarketSession;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Fields, MAX_ROWS, RowClaim, Table, Value, padded, placeholders, table, values};
use marketplace::ports::{
    RequestClaim, RequestQueries, RequestRecord, RequestRepo, RequestScope, RequestState, StoredResponse,
};

table! {
    pub(crate) RequestTable("idempotency_keys" by "idempotency_key"),
    read row as RequestRecord, write request as &'a RequestRecord;
    insert {
        scope: (scope(row))(
            "tenant_id" = request.scope.tenant.get(),
            "user_id" = request.scope.user.get(),
            "route" = &request.scope.route,
            "idempotency_key" = &request.scope.key
        ),
    }
    update {
        body_hash: string("body_hash" = &request.body_hash),
        token: string("token" = &request.token),
        state: (state(row))(
            "status" = if response(request).is_some() { SUCCESS } else { PROCESSING },
            "lease_until" = lease_until(request),
            "answer_status" = response(request).map(|response| i64::from(response.code)),
            "answer" = response(request).map(|response| response.text.as_str())
        ),
        trace_id: string("trace_id" = &request.trace_id),
        create_time: time("create_time" = request.create_time),
        expire_time: time("expire_time" = request.expire_time),
    }
}

const SCOPE: &str = "tenant_id = ? AND user_id = ? AND route = ? AND idempotency_key = ?";
const PROCESSING: &str = "PROCESSING";
const SUCCESS: &str = "SUCCESS";

fn scope(row: Fields<'_>) -> Result<RequestScope, StoreError> {
    Ok(RequestScope {
        tenant: row.id("tenant_id")?,
        user: row.id("user_id")?,
        route: row.string("route")?,
        key: row.string("idempotency_key")?,
    })
}

fn state(row: Fields<'_>) -> Result<RequestState, StoreError> {
    match row.text("status")? {
        PROCESSING => Ok(RequestState::Processing { until: row.time("lease_until")? }),
        SUCCESS => Ok(RequestState::Success(StoredResponse {
            code: row.id("answer_status")?,
            text: row.string("answer")?,
        })),
        other => Err(row.corrupt("status", format!("{other:?} is unknown"))),
    }
}

fn response(request: &RequestRecord) -> Option<&StoredResponse> {
    match &request.state {
        RequestState::Processing { .. } => None,
        RequestState::Success(response) => Some(response),
    }
}

fn lease_until(request: &RequestRecord) -> Option<DateTime<Utc>> {
    match request.state {
        RequestState::Processing { until } => Some(until),
        RequestState::Success(_) => None,
    }
}

fn scope_values(scope: &RequestScope) -> Vec<Value> {
    values![scope.tenant.get(), scope.user.get(), &scope.route, &scope.key]
}

/// Expired idempotency keys, earliest expiry first.
pub(crate) fn expired(dialect: &dyn Dialect, now: DateTime<Utc>, most: u32) -> (String, Vec<Value>) {
    let index = dialect.index("idx_idempotency_expire");
    let sql = format!(
        "SELECT id FROM idempotency_keys {index} WHERE expire_time <= ? ORDER BY expire_time, id LIMIT ?"
    );
    (sql, values![now, most])
}

#[async_trait]
impl RequestQueries for MarketSession {
    async fn request_of(&mut self, scope: &RequestScope) -> Result<Option<RequestRecord>, StoreError> {
        let sql = format!("SELECT {} FROM idempotency_keys WHERE {SCOPE}", RequestTable::COLUMNS);
        self.fetch_one(&sql, scope_values(scope)).await?.as_ref().map(RequestTable::read).transpose()
    }
}

#[async_trait]
impl RequestRepo for MarketSession {
    async fn claim_request(&mut self, claim: &RequestRecord) -> Result<RequestClaim, StoreError> {
        let existing = match self.claim_row::<RequestTable>(RequestTable::values(claim)).await? {
            RowClaim::Inserted => return Ok(RequestClaim::Inserted),
            RowClaim::Locked => None,
            RowClaim::NotInserted => self.request_of(&claim.scope).await?,
        };
        Ok(existing.map_or(RequestClaim::Locked, RequestClaim::Exists))
    }

    async fn advance_request(&mut self, token: &str, after: &RequestRecord) -> Result<Changed, StoreError> {
        let sql = format!("UPDATE idempotency_keys SET {} WHERE {SCOPE} AND token = ?", RequestTable::SET);
        let values =
            [RequestTable::updated_values(after), scope_values(&after.scope), values![token]].concat();
        Ok(Changed::of(self.execute(&sql, values).await?))
    }

    async fn drop_request(&mut self, scope: &RequestScope, token: &str) -> Result<Changed, StoreError> {
        let sql =
            format!("DELETE FROM idempotency_keys WHERE {SCOPE} AND token = ? AND status = '{PROCESSING}'");
        Ok(Changed::of(self.execute(&sql, [scope_values(scope), values![token]].concat()).await?))
    }

    async fn delete_expired_requests(&mut self, now: DateTime<Utc>, most: u32) -> Result<u64, StoreError> {
        let (sql, values) = expired(self.dialect(), now, most);
        let rows = self.fetch(&sql, values).await?;
        let ids: Vec<i64> =
            rows.iter().map(|row| row.of("idempotency_keys", "id").int("id")).collect::<Result<_, _>>()?;
        let mut removed = 0;
        for ids in ids.chunks(MAX_ROWS) {
            let ids = padded(ids);
            let sql = format!(
                "DELETE FROM idempotency_keys WHERE id IN ({}) AND expire_time <= ?",
                placeholders(ids.len())
            );
            let values = ids.into_iter().map(Value::from).chain(values![now]).collect();
            removed += self.execute(&sql, values).await?;
        }
        Ok(removed)
    }
}
