//! Idempotency records in the database.

use async_trait::async_trait;

use crate::claim::claim_in;
use crate::ports::MarketTransactor;
use crate::ports::{IdempotencyError, IdempotencyStore, RequestRecord, RequestScope, StoredResponse};
use handover_outbox::ports::{Changed, StoreError};
use handover_outbox::{UnitError, with_tx};

/// The default [`IdempotencyStore`]: records in the database. Each call is a short unit of work.
#[derive(Clone)]
pub struct DatabaseIdempotencyStore {
    tx: MarketTransactor,
}

impl DatabaseIdempotencyStore {
    pub fn new(tx: MarketTransactor) -> DatabaseIdempotencyStore {
        DatabaseIdempotencyStore { tx }
    }
}

impl UnitError for IdempotencyError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            IdempotencyError::Store(error) => Some(error),
            IdempotencyError::KeyReused | IdempotencyError::InProgress | IdempotencyError::Unavailable(_) => {
                None
            }
        }
    }
}

#[async_trait]
impl IdempotencyStore for DatabaseIdempotencyStore {
    async fn claim(&self, claim: &RequestRecord) -> Result<Option<StoredResponse>, IdempotencyError> {
        with_tx(&self.tx, claim.clone(), |unit, claim, _| Box::pin(claim_in(unit, claim))).await
    }

    async fn store_response(&self, token: &str, record: &RequestRecord) -> Result<Changed, IdempotencyError> {
        with_tx(&self.tx, (token.to_owned(), record.clone()), |unit, (token, record), _| {
            Box::pin(async move { Ok(unit.advance_request(token, record).await?) })
        })
        .await
    }

    async fn release(&self, scope: &RequestScope, token: &str) -> Result<Changed, IdempotencyError> {
        with_tx(&self.tx, (scope.clone(), token.to_owned()), |unit, (scope, token), _| {
            Box::pin(async move { Ok(unit.drop_request(scope, token).await?) })
        })
        .await
    }
}
