//! Idempotency records in the database.

use std::sync::Arc;

use async_trait::async_trait;

use crate::app::MarketTransactor;
use crate::ports::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, Standing, StoredAnswer, Work,
};
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::{UnitError, with_tx};

/// The default [`IdempotencyStore`]: records in the database. Each call is a short unit of work.
#[derive(Clone)]
pub struct DatabaseKeys {
    tx: MarketTransactor,
}

impl DatabaseKeys {
    /// Creates a store on this transactor.
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
            Box::pin(async move { claim_in(unit, &claim).await })
        })
        .await
    }

    async fn conclude(&self, token: &str, record: &KeptRequest) -> Result<Changed, IdempotencyError> {
        let token = Arc::<str>::from(token);
        let record = Arc::new(record.clone());
        with_tx(&self.tx, move |unit, _| {
            let token = Arc::clone(&token);
            let record = Arc::clone(&record);
            Box::pin(async move { Ok(unit.advance_request(&token, &record).await?) })
        })
        .await
    }

    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError> {
        let scope = Arc::new(scope.clone());
        let token = Arc::<str>::from(token);
        with_tx(&self.tx, move |unit, _| {
            let scope = Arc::clone(&scope);
            let token = Arc::clone(&token);
            Box::pin(async move { Ok(unit.drop_request(&scope, &token).await?) })
        })
        .await
    }
}

/// Adds the claim, takes over an expired one, or returns the stored response.
async fn claim_in(unit: &mut Work, claim: &KeptRequest) -> Result<Option<StoredAnswer>, IdempotencyError> {
    let Some(existing) = unit.request_of(&claim.scope).await? else {
        unit.insert_request(claim).await?;
        return Ok(None);
    };
    let token = existing.token.clone();
    match existing.claimed_by(claim, claim.create_time)? {
        Standing::Claimed => Ok(None),
        Standing::Answered(response) => Ok(Some(response)),
        Standing::Over => match unit.advance_request(&token, claim).await? {
            Changed::One => Ok(None),
            Changed::None => Err(StoreError::Conflict { what: "idempotency key".to_owned() }.into()),
        },
    }
}
