//! A store of idempotency keys with one fault.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::Changed;
use marketplace::ports::{
    ClaimState, IdempotencyError, IdempotencyStore, RequestRecord, RequestScope, RequestState, StoredResponse,
};

use handover_contract::samples::start;
use marketplace_contract::keys::{KeysRig, LEASE, RETENTION};

/// The guarantee that the store of keys violates; `None` is a correct store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    TenantsShareKeys,
    UsersShareKeys,
    RoutesShareKeys,
    KeysIgnoreCase,
    ScopePartsAreNotSeparated,
    ConcurrentClaimsBothSucceed,
    ConcurrentTakeoversBothSucceed,
    RepeatedClaimIsInProgress,
    DifferentBodyIsReplayed,
    LeasesEndImmediately,
    LeasesNeverEnd,
    LateOwnerStoresResponse,
    LateOwnerReleasesKey,
    ResponseKeepsTokenOfClaim,
    ResponsesAreReleased,
    ResponsesAreTruncated,
    ResponsesExpireWithLease,
    RetentionStartsAtResponse,
    ExpiryIsIgnored,
    UnclaimedResponsesAreStored,
}

/// Idempotency keys in a map, with one fault.
#[derive(Clone)]
pub struct FaultyKeysRig {
    fault: Fault,
    now: Arc<Mutex<DateTime<Utc>>>,
    kept: Arc<Mutex<BTreeMap<String, RequestRecord>>>,
}

impl FaultyKeysRig {
    /// A fresh rig with the given fault.
    pub fn new(fault: Fault) -> FaultyKeysRig {
        FaultyKeysRig { fault, now: Arc::new(Mutex::new(start())), kept: Arc::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn name(&self, scope: &RequestScope) -> String {
        let RequestScope { tenant, user, route, key } = scope;
        match self.fault {
            Fault::TenantsShareKeys => format!("{:?}", (user, route, key)),
            Fault::UsersShareKeys => format!("{:?}", (tenant, route, key)),
            Fault::RoutesShareKeys => format!("{:?}", (tenant, user, key)),
            Fault::KeysIgnoreCase => format!("{:?}", (tenant, user, route, key.to_lowercase())),
            Fault::ScopePartsAreNotSeparated => format!("{tenant}:{user}:{route}:{key}"),
            _ => format!("{scope:?}"),
        }
    }

    fn seen(&self, scope: &RequestScope) -> Option<RequestRecord> {
        self.kept.lock().unwrap().get(&self.name(scope)).cloned()
    }

    /// The result of a claim on an existing request, with the fault applied.
    fn standing(
        &self,
        mut before: RequestRecord,
        claim: &RequestRecord,
    ) -> Result<ClaimState, IdempotencyError> {
        let now = self.now();
        match (self.fault, &mut before.state) {
            (Fault::RepeatedClaimIsInProgress, _) if before.token == claim.token => {
                return Err(IdempotencyError::InProgress);
            }
            (Fault::DifferentBodyIsReplayed, _) => before.body_hash = claim.body_hash.clone(),
            (Fault::LeasesEndImmediately, RequestState::Processing { until }) => *until = now,
            (Fault::LeasesNeverEnd, RequestState::Processing { until }) => {
                *until = now + Duration::from_secs(1)
            }
            (Fault::ExpiryIsIgnored, _) => before.expire_time = now + Duration::from_secs(1),
            _ => {}
        }
        before.decide_claim(claim, now)
    }
}

impl KeysRig for FaultyKeysRig {
    fn keys(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(self.clone())
    }

    fn now(&self) -> DateTime<Utc> {
        *self.now.lock().unwrap()
    }

    fn advance(&self, by: Duration) {
        *self.now.lock().unwrap() += by;
    }
}

#[async_trait]
impl IdempotencyStore for FaultyKeysRig {
    async fn claim(&self, claim: &RequestRecord) -> Result<Option<StoredResponse>, IdempotencyError> {
        let seen = self.seen(&claim.scope);
        let reads_early = match self.fault {
            Fault::ConcurrentClaimsBothSucceed => seen.is_none(),
            Fault::ConcurrentTakeoversBothSucceed => seen.is_some(),
            _ => false,
        };
        if reads_early {
            tokio::task::yield_now().await;
        }
        let name = self.name(&claim.scope);
        let mut kept = self.kept.lock().unwrap();
        let before = if reads_early { seen } else { kept.get(&name).cloned() };
        match before.map(|before| self.standing(before, claim)).transpose()? {
            Some(ClaimState::Own) => Ok(None),
            Some(ClaimState::Completed(answer)) => Ok(Some(answer)),
            Some(ClaimState::Replaceable) | None => {
                kept.insert(name, claim.clone());
                Ok(None)
            }
        }
    }

    async fn store_response(
        &self,
        token: &str,
        answered: &RequestRecord,
    ) -> Result<Changed, IdempotencyError> {
        let name = self.name(&answered.scope);
        let mut after = answered.clone();
        let mut kept = self.kept.lock().unwrap();
        let stands = match kept.get(&name) {
            Some(before) => before.token == token || self.has(Fault::LateOwnerStoresResponse),
            None => self.has(Fault::UnclaimedResponsesAreStored),
        };
        if !stands {
            return Ok(Changed::None);
        }
        match (self.fault, &mut after.state) {
            (Fault::ResponseKeepsTokenOfClaim, _) => after.token = token.to_owned(),
            (Fault::ResponsesAreTruncated, RequestState::Success(answer)) => answer.text.truncate(100_000),
            (Fault::ResponsesExpireWithLease, _) => after.expire_time = after.create_time + LEASE,
            (Fault::RetentionStartsAtResponse, _) => after.expire_time = self.now() + RETENTION,
            _ => {}
        }
        kept.insert(name, after);
        Ok(Changed::One)
    }

    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError> {
        let name = self.name(scope);
        let mut kept = self.kept.lock().unwrap();
        let frees = kept.get(&name).is_some_and(|before| match before.state {
            RequestState::Processing { .. } => before.token == token || self.has(Fault::LateOwnerReleasesKey),
            RequestState::Success(_) => before.token == token && self.has(Fault::ResponsesAreReleased),
        });
        if frees {
            kept.remove(&name);
        }
        Ok(if frees { Changed::One } else { Changed::None })
    }
}
