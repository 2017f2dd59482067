//! Ticket of a request: its claim, and the storage of its response.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::UseCaseError;
use crate::ports::{IdempotencyError, IdempotencyStore, RequestRecord, RequestState, StoredResponse, Work};
use marketplace_domain::{AssetOperation, Coupon, GatewayReport, Order, Payment, Product, Refund};

use handover_outbox::ports::{Changed, Numbered, StoreError};

/// Result of a command, from which its response is built.
#[derive(Debug, Clone, Copy)]
pub enum CommandResult<'a> {
    Order(&'a Order),
    Product(&'a Product),
    Payment(&'a Payment),
    Refund(&'a Refund),
    Operation(&'a AssetOperation),
    Coupon(&'a Coupon),
    GatewayReport(&'a Numbered<GatewayReport>),
}

macro_rules! impl_from {
    ($($kind:ident),+) => {
        $(impl<'a> From<&'a $kind> for CommandResult<'a> {
            fn from(value: &'a $kind) -> CommandResult<'a> {
                CommandResult::$kind(value)
            }
        })+
    };
}
impl_from!(Order, Product, Payment, Refund, Coupon);

impl<'a> From<&'a AssetOperation> for CommandResult<'a> {
    fn from(value: &'a AssetOperation) -> CommandResult<'a> {
        CommandResult::Operation(value)
    }
}

impl<'a> From<&'a Numbered<GatewayReport>> for CommandResult<'a> {
    fn from(value: &'a Numbered<GatewayReport>) -> CommandResult<'a> {
        CommandResult::GatewayReport(value)
    }
}

/// HTTP status of a successful command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuccessStatus {
    /// 201: the command created a resource.
    Created,
    /// 200: the command changed a resource.
    Ok,
}

impl SuccessStatus {
    pub(crate) const fn code(self) -> u16 {
        match self {
            SuccessStatus::Created => 201,
            SuccessStatus::Ok => 200,
        }
    }
}

/// Serializes the `data` field of a response.
pub type ResponseWriter = fn(CommandResult<'_>) -> Result<String, serde_json::Error>;

/// Claim of one attempt at a request. Clones are the same claim.
#[derive(Clone)]
pub struct Ticket {
    pub(crate) request: Arc<RequestRecord>,
    /// Token of the stored response. It differs from the token of the claim, so that an attempt that read the
    /// claim earlier cannot replace the response.
    pub(crate) response_token: Arc<str>,
    /// Store in which the key was claimed.
    pub(crate) keys: Arc<dyn IdempotencyStore>,
    pub(crate) storage: ResponseStorage,
}

/// Point at which the response of a request is stored.
#[derive(Clone)]
pub(crate) enum ResponseStorage {
    /// The unit of work of the command stores the response.
    InUnit(UnitResponse),
    /// The response is stored after the command, in the store in which the key was claimed.
    Deferred,
}

/// Writer of a response in the unit of work of the command.
#[derive(Clone)]
pub(crate) struct UnitResponse {
    writer: ResponseWriter,
    /// Whether a unit of work has written the response. The response is stored if that unit of work was committed.
    written: Arc<AtomicBool>,
}

impl UnitResponse {
    pub(crate) fn new(writer: ResponseWriter) -> UnitResponse {
        UnitResponse { writer, written: Arc::default() }
    }

    /// Serializes the data of the response.
    pub(crate) fn write(&self, result: CommandResult<'_>) -> Result<String, StoreError> {
        (self.writer)(result).map_err(|error| StoreError::Backend(error.into()))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("request", &self.request).finish_non_exhaustive()
    }
}

impl PartialEq for Ticket {
    fn eq(&self, other: &Ticket) -> bool {
        self.request == other.request
    }
}

impl Eq for Ticket {}

impl Ticket {
    /// The idempotency key that the client sent.
    pub fn key(&self) -> &str {
        &self.request.scope.key
    }

    /// Returns the part that stores the response in the unit of work of the command. Rejects a ticket with deferred
    /// storage before the command runs.
    pub(crate) fn unit_response(&self) -> Result<UnitResponse, StoreError> {
        match &self.storage {
            ResponseStorage::InUnit(unit_response) => Ok(unit_response.clone()),
            ResponseStorage::Deferred => {
                let route = &self.request.scope.route;
                let why = format!(
                    "{route} stores its response in its unit of work, but the key was claimed for a deferred response"
                );
                Err(StoreError::Backend(why.into()))
            }
        }
    }

    pub(crate) async fn store_response<R>(
        &self,
        unit_response: &UnitResponse,
        unit: &mut Work,
        status: SuccessStatus,
        result: CommandResult<'_>,
    ) -> Result<(), UseCaseError<R>> {
        let data = unit_response.write(result)?;
        let after = self.success_record(StoredResponse { status: status.code(), data });
        if unit.advance_request(&self.request.token, &after).await? == Changed::None {
            // If an earlier attempt of this unit of work with unknown outcome was committed, the response is already
            // stored. Otherwise another attempt has taken over the claim.
            let stored = unit.request_of(&after.scope).await?;
            if stored.is_none_or(|stored| stored.token != after.token) {
                return Err(UseCaseError::InProgress);
            }
        }
        unit_response.written.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn success_record(&self, response: StoredResponse) -> RequestRecord {
        RequestRecord {
            state: RequestState::Success(response),
            token: self.response_token.to_string(),
            ..RequestRecord::clone(&self.request)
        }
    }

    /// Stores the response of an executed request. Does nothing if the command's unit of work has written it, or if
    /// another attempt has taken over the claim.
    pub async fn done(&self, response: StoredResponse) -> Result<(), IdempotencyError> {
        if let ResponseStorage::InUnit(unit_response) = &self.storage
            && unit_response.written.load(Ordering::Relaxed)
        {
            return Ok(());
        }
        self.keys.store_response(&self.request.token, &self.success_record(response)).await.map(|_| ())
    }

    /// Releases the key of a request that was rejected and changed nothing.
    pub async fn refused(&self) -> Result<(), IdempotencyError> {
        self.keys.release(&self.request.scope, &self.request.token).await.map(|_| ())
    }
}
