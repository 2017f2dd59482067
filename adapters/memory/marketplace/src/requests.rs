//! Requests with an idempotency key.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_memory::store::limited;
use handover_memory::store::statement::next;
use handover_memory::store::tables::Row;
use handover_outbox::ports::{Changed, Numbered, StoreError};
use marketplace::ports::{
    RequestClaim, RequestQueries, RequestRecord, RequestRepo, RequestScope, RequestState,
};

use crate::tables::{Lock, Market, MarketRows as _};
use crate::unit::MarketUnit;

#[derive(Default)]
pub(crate) struct RequestIndex {
    by_expiry: BTreeSet<(DateTime<Utc>, RequestScope)>,
    pub(crate) by_id: BTreeMap<i64, RequestScope>,
}

impl Row<Market> for Numbered<RequestRecord> {
    type Key = RequestScope;
    type Index = RequestIndex;

    fn key(&self) -> RequestScope {
        self.effect.scope.clone()
    }

    fn enter(&self, index: &mut RequestIndex) {
        index.by_expiry.insert((self.effect.expire_time, self.key()));
        index.by_id.insert(self.id, self.key());
    }

    fn leave(&self, index: &mut RequestIndex) {
        index.by_expiry.remove(&(self.effect.expire_time, self.key()));
        index.by_id.remove(&self.id);
    }
}

#[async_trait]
impl RequestQueries for MarketUnit {
    async fn request_of(&mut self, scope: &RequestScope) -> Result<Option<RequestRecord>, StoreError> {
        self.read(|statement| statement.requests().get(scope).map(|row| row.effect.clone())).await
    }
}

#[async_trait]
impl RequestRepo for MarketUnit {
    async fn claim_request(&mut self, claim: &RequestRecord) -> Result<RequestClaim, StoreError> {
        // A claim that is not inserted locks nothing.
        if let Some(existing) = self.request_of(&claim.scope).await? {
            return Ok(RequestClaim::Exists(existing));
        }
        let lock = Lock::Request(claim.scope.clone());
        if !self.lock_if_free(lock.clone()).await? {
            return Ok(RequestClaim::Locked);
        }
        self.write(vec![lock], |statement| {
            if let Some(existing) = statement.requests().get(&claim.scope) {
                return Ok(RequestClaim::Exists(existing.effect.clone()));
            }
            let id = next(&mut statement.sequences.requests);
            statement.own.requests.put(Numbered { id, effect: claim.clone() });
            Ok(RequestClaim::Inserted)
        })
        .await
    }

    async fn advance_request(&mut self, token: &str, after: &RequestRecord) -> Result<Changed, StoreError> {
        self.write(vec![Lock::Request(after.scope.clone())], |statement| {
            let before = statement.requests().get(&after.scope);
            let Some(id) = before.filter(|it| it.effect.token == token).map(|it| it.id) else {
                return Ok(Changed::None);
            };
            statement.own.requests.put(Numbered { id, effect: after.clone() });
            Ok(Changed::One)
        })
        .await
    }

    async fn drop_request(&mut self, scope: &RequestScope, token: &str) -> Result<Changed, StoreError> {
        self.write(vec![Lock::Request(scope.clone())], |statement| {
            let is_own_claim = |before: &Numbered<RequestRecord>| {
                before.effect.token == token && matches!(before.effect.state, RequestState::Processing { .. })
            };
            if !statement.requests().get(scope).is_some_and(is_own_claim) {
                return Ok(Changed::None);
            }
            statement.own.requests.remove(scope);
            Ok(Changed::One)
        })
        .await
    }

    async fn delete_expired_requests(&mut self, now: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        let expired: Vec<RequestScope> = self
            .read(|statement| {
                let requests = statement.requests();
                let expired = requests.select(|table| {
                    let expired = table.index.by_expiry.iter().take_while(move |(expiry, _)| *expiry <= now);
                    expired.filter_map(|entry| Some((entry.clone(), table.get(&entry.1)?)))
                });
                expired.take(limited(limit)).map(Row::key).collect()
            })
            .await?;
        self.write(expired.iter().cloned().map(Lock::Request).collect(), |statement| {
            let mut removed = 0;
            for scope in expired {
                // Only a key that is still expired is removed: another request may have claimed it in the meantime.
                let is_expired = |request: &Numbered<RequestRecord>| request.effect.expire_time <= now;
                if statement.requests().get(&scope).is_some_and(is_expired) {
                    statement.own.requests.remove(&scope);
                    removed += 1;
                }
            }
            Ok(removed)
        })
        .await
    }
}
