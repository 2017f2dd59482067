//! A store of idempotency keys with one fault.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::Changed;
use marketplace::ports::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, RequestState, Standing, StoredAnswer,
};

use handover_contract::samples::start;
use marketplace_contract::keys::{KEEP, KeysRig, LEASE};

/// The broken promise; `None` is a correct store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    TenantsShareKeys,
    UsersShareKeys,
    RoutesShareKeys,
    KeysIgnoreCase,
    ScopesAreRunTogether,
    TwoAtOnceClaimOne,
    TwoAtOnceTakeOver,
    OwnClaimsAreInProgress,
    AnotherBodyIsARepeat,
    LeasesEndAtOnce,
    LeasesNeverEnd,
    OvertakenOnesAnswer,
    OvertakenOnesRelease,
    AnswersKeepTheTokenOfTheClaim,
    AnswersAreReleased,
    AnswersAreCut,
    AnswersEndWithTheLease,
    AnswersLastFromWhenTheyCame,
    NothingExpires,
    UnclaimedAnswersAreKept,
}

/// Idempotency keys in a map, with one fault.
#[derive(Clone)]
pub struct FlawedKeysRig {
    fault: Flaw,
    now: Arc<Mutex<DateTime<Utc>>>,
    kept: Arc<Mutex<BTreeMap<String, KeptRequest>>>,
}

impl FlawedKeysRig {
    /// A fresh rig with this fault.
    pub fn new(fault: Flaw) -> FlawedKeysRig {
        FlawedKeysRig { fault, now: Arc::new(Mutex::new(start())), kept: Arc::default() }
    }

    fn has(&self, fault: Flaw) -> bool {
        self.fault == fault
    }

    fn name(&self, scope: &RequestScope) -> String {
        let RequestScope { tenant, user, route, key } = scope;
        match self.fault {
            Flaw::TenantsShareKeys => format!("{:?}", (user, route, key)),
            Flaw::UsersShareKeys => format!("{:?}", (tenant, route, key)),
            Flaw::RoutesShareKeys => format!("{:?}", (tenant, user, key)),
            Flaw::KeysIgnoreCase => format!("{:?}", (tenant, user, route, key.to_lowercase())),
            Flaw::ScopesAreRunTogether => format!("{tenant}:{user}:{route}:{key}"),
            _ => format!("{scope:?}"),
        }
    }

    fn seen(&self, scope: &RequestScope) -> Option<KeptRequest> {
        self.kept.lock().unwrap().get(&self.name(scope)).cloned()
    }

    /// The result of a claim on an existing request, with the fault applied.
    fn standing(&self, mut before: KeptRequest, claim: &KeptRequest) -> Result<Standing, IdempotencyError> {
        let now = self.now();
        match (self.fault, &mut before.state) {
            (Flaw::OwnClaimsAreInProgress, _) if before.token == claim.token => {
                return Err(IdempotencyError::InProgress);
            }
            (Flaw::AnotherBodyIsARepeat, _) => before.body_hash = claim.body_hash.clone(),
            (Flaw::LeasesEndAtOnce, RequestState::Processing { until }) => *until = now,
            (Flaw::LeasesNeverEnd, RequestState::Processing { until }) => {
                *until = now + Duration::from_secs(1)
            }
            (Flaw::NothingExpires, _) => before.expire_time = now + Duration::from_secs(1),
            _ => {}
        }
        before.claimed_by(claim, now)
    }
}

impl KeysRig for FlawedKeysRig {
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
impl IdempotencyStore for FlawedKeysRig {
    async fn claim(&self, claim: &KeptRequest) -> Result<Option<StoredAnswer>, IdempotencyError> {
        let seen = self.seen(&claim.scope);
        let reads_early = match self.fault {
            Flaw::TwoAtOnceClaimOne => seen.is_none(),
            Flaw::TwoAtOnceTakeOver => seen.is_some(),
            _ => false,
        };
        if reads_early {
            tokio::task::yield_now().await;
        }
        let name = self.name(&claim.scope);
        let mut kept = self.kept.lock().unwrap();
        let before = if reads_early { seen } else { kept.get(&name).cloned() };
        match before.map(|before| self.standing(before, claim)).transpose()? {
            Some(Standing::Claimed) => Ok(None),
            Some(Standing::Answered(answer)) => Ok(Some(answer)),
            Some(Standing::Over) | None => {
                kept.insert(name, claim.clone());
                Ok(None)
            }
        }
    }

    async fn conclude(&self, token: &str, answered: &KeptRequest) -> Result<Changed, IdempotencyError> {
        let name = self.name(&answered.scope);
        let mut after = answered.clone();
        let mut kept = self.kept.lock().unwrap();
        let stands = match kept.get(&name) {
            Some(before) => before.token == token || self.has(Flaw::OvertakenOnesAnswer),
            None => self.has(Flaw::UnclaimedAnswersAreKept),
        };
        if !stands {
            return Ok(Changed::None);
        }
        match (self.fault, &mut after.state) {
            (Flaw::AnswersKeepTheTokenOfTheClaim, _) => after.token = token.to_owned(),
            (Flaw::AnswersAreCut, RequestState::Success(answer)) => answer.data.truncate(100_000),
            (Flaw::AnswersEndWithTheLease, _) => after.expire_time = after.create_time + LEASE,
            (Flaw::AnswersLastFromWhenTheyCame, _) => after.expire_time = self.now() + KEEP,
            _ => {}
        }
        kept.insert(name, after);
        Ok(Changed::One)
    }

    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError> {
        let name = self.name(scope);
        let mut kept = self.kept.lock().unwrap();
        let frees = kept.get(&name).is_some_and(|before| match before.state {
            RequestState::Processing { .. } => before.token == token || self.has(Flaw::OvertakenOnesRelease),
            RequestState::Success(_) => before.token == token && self.has(Flaw::AnswersAreReleased),
        });
        if frees {
            kept.remove(&name);
        }
        Ok(if frees { Changed::One } else { Changed::None })
    }
}
