//! Requests with an idempotency key.

use crate::session::MarketSession;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, MAX_ROWS, Row, Value, padded, placeholders, values};
use marketplace::ports::{
    RequestQueries, RequestRecord, RequestRepo, RequestScope, RequestState, StoredResponse,
};

const COLUMNS: &str = "tenant_id, user_id, route, idempotency_key, body_hash, token, status, lease_until, answer_status, \
                       answer, trace_id, create_time, expire_time";
const SCOPE: &str = "tenant_id = ? AND user_id = ? AND route = ? AND idempotency_key = ?";
const PROCESSING: &str = "PROCESSING";
const SUCCESS: &str = "SUCCESS";

fn request(row: &Row) -> Result<RequestRecord, StoreError> {
    let row = row.of("idempotency_keys", "idempotency_key");
    let state = match row.text("status")? {
        PROCESSING => RequestState::Processing { until: row.time("lease_until")? },
        SUCCESS => RequestState::Success(StoredResponse {
            code: u16::try_from(row.count("answer_status")?)
                .map_err(|error| row.corrupt("answer_status", error.to_string()))?,
            text: row.string("answer")?,
        }),
        other => return Err(row.corrupt("status", format!("{other:?} is unknown"))),
    };
    Ok(RequestRecord {
        scope: RequestScope {
            tenant: row.id("tenant_id")?,
            user: row.id("user_id")?,
            route: row.string("route")?,
            key: row.string("idempotency_key")?,
        },
        body_hash: row.string("body_hash")?,
        token: row.string("token")?,
        state,
        trace_id: row.string("trace_id")?,
        create_time: row.time("create_time")?,
        expire_time: row.time("expire_time")?,
    })
}

fn scope_values(scope: &RequestScope) -> Vec<Value> {
    values![scope.tenant.get(), scope.user.get(), &scope.route, &scope.key]
}

/// The values of the [`COLUMNS`] after the scope.
fn state_values(request: &RequestRecord) -> Vec<Value> {
    let (status, until, answer) = match &request.state {
        RequestState::Processing { until } => (PROCESSING, Some(*until), None),
        RequestState::Success(answer) => (SUCCESS, None, Some(answer)),
    };
    values![
        &request.body_hash,
        &request.token,
        status,
        until,
        answer.map(|answer| i64::from(answer.code)),
        answer.map(|answer| answer.text.clone()),
        &request.trace_id,
        request.create_time,
        request.expire_time,
    ]
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
        let sql = format!("SELECT {COLUMNS} FROM idempotency_keys WHERE {SCOPE}");
        self.fetch_one(&sql, scope_values(scope)).await?.as_ref().map(request).transpose()
    }
}

#[async_trait]
impl RequestRepo for MarketSession {
    async fn insert_request(&mut self, request: &RequestRecord) -> Result<(), StoreError> {
        let values = [scope_values(&request.scope), state_values(request)].concat();
        self.insert(&format!("INSERT INTO idempotency_keys ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }

    async fn advance_request(&mut self, token: &str, after: &RequestRecord) -> Result<Changed, StoreError> {
        let sql = format!(
            "UPDATE idempotency_keys SET body_hash = ?, token = ?, status = ?, lease_until = ?, answer_status = ?, \
             answer = ?, trace_id = ?, create_time = ?, expire_time = ? WHERE {SCOPE} AND token = ?"
        );
        let values = [state_values(after), scope_values(&after.scope), values![token]].concat();
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
