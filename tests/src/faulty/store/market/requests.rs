//! Faults of requests with idempotency keys.

use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> RequestQueriesWrapper for Faulty<U> {}

impl RequestRepoWrapper for Unit {
    async fn claim_request(&mut self, claim: &RequestRecord) -> Result<RequestClaim, StoreError> {
        Ok(match self.inner().claim_request(claim).await? {
            RequestClaim::Exists(_) if self.has(Fault::TakenScopesAreClaimed) => RequestClaim::Inserted,
            RequestClaim::Locked if self.has(Fault::LockedScopesAreClaimed) => RequestClaim::Inserted,
            claimed => claimed,
        })
    }

    async fn advance_request(&mut self, token: &str, after: &RequestRecord) -> Result<Changed, StoreError> {
        if self.has(Fault::RequestsAdvanceByAnyToken) {
            self.serialize().await;
            if let Some(before) = self.inner().request_of(&after.scope).await? {
                return self.inner().advance_request(&before.token, after).await;
            }
        }
        self.inner().advance_request(token, after).await
    }

    async fn drop_request(&mut self, scope: &RequestScope, token: &str) -> Result<Changed, StoreError> {
        let found = self.inner().request_of(scope).await?;
        if let Some(before) = found.filter(|before| before.token == token)
            && self.has(Fault::AnsweredRequestsAreDropped)
            && let RequestState::Success(_) = before.state
        {
            let until = before.expire_time;
            let again = RequestRecord { state: RequestState::Processing { until }, ..before };
            let changed = self.inner().advance_request(token, &again).await?;
            assert_eq!(changed, Changed::One, "the request must still have this token");
        }
        self.inner().drop_request(scope, token).await
    }
}
