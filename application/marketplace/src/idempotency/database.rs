//! Idempotency keys in the database.

use std::sync::Arc;

use async_trait::async_trait;

use crate::app::MarketTransactor;
use crate::ports::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, Standing, StoredAnswer, Work,
};
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::{UnitError, with_tx};

/// Keys in the database, each call a short unit of work of its own: what everything uses unless it was told otherwise.
#[derive(Clone)]
pub struct DatabaseKeys {
    tx: MarketTransactor,
}

impl DatabaseKeys {
    /// In the store of this transactor.
    pub fn new(tx: MarketTransactor) -> DatabaseKeys {
        DatabaseKeys { tx }
    }
}

impl UnitError for IdempotencyError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            IdempotencyError::Store(error) => Some(error),
            IdempotencyError::KeyTaken | IdempotencyError::InProgress | IdempotencyError::Away(_) => None,
        }
    }
}

#[async_trait]
impl IdempotencyStore for DatabaseKeys {
    async fn claim(&self, claim: &KeptRequest) -> Result<Option<StoredAnswer>, IdempotencyError> {
        let claim = Arc::new(claim.clone());
        with_tx(&self.tx, move |unit, _| {
            let claim = Arc::clone(&claim);
            Box::pin(async move { claimed(unit, &claim).await })
        })
        .await
    }

    async fn conclude(&self, token: &str, answered: &KeptRequest) -> Result<Changed, IdempotencyError> {
        let (token, answered) = (Arc::<str>::from(token), Arc::new(answered.clone()));
        with_tx(&self.tx, move |unit, _| {
            let (token, answered) = (Arc::clone(&token), Arc::clone(&answered));
            Box::pin(async move { Ok(unit.advance_request(&token, &answered).await?) })
        })
        .await
    }

    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError> {
        let asked = Arc::new((scope.clone(), token.to_owned()));
        with_tx(&self.tx, move |unit, _| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { Ok(unit.drop_request(&asked.0, &asked.1).await?) })
        })
        .await
    }
}

async fn claimed(unit: &mut Work, claim: &KeptRequest) -> Result<Option<StoredAnswer>, IdempotencyError> {
    let Some(before) = unit.request_of(&claim.scope).await? else {
        unit.insert_request(claim).await?;
        return Ok(None);
    };
    let token = before.token.clone();
    match before.claimed_by(claim, claim.create_time)? {
        Standing::Claimed => Ok(None),
        Standing::Answered(answer) => Ok(Some(answer)),
        Standing::Over => match unit.advance_request(&token, claim).await? {
            Changed::One => Ok(None),
            Changed::None => Err(StoreError::Conflict { what: "idempotency key".to_owned() }.into()),
        },
    }
}
