//! Which endpoints an operator can see and change.

use super::endpoints::{InvalidEndpoint, WebhookError};
use crate::operations::{OperationError, Operator};
use crate::ports::{BodyForm, EndpointId, EndpointStatus, OutboxUnit, WebhookEndpoint};

pub(super) fn not_found() -> WebhookError {
    OperationError::NotFound { what: "webhook endpoint" }.into()
}

/// Refuses a deleted endpoint.
pub(super) fn not_deleted(endpoint: WebhookEndpoint) -> Result<WebhookEndpoint, WebhookError> {
    match endpoint.status {
        EndpointStatus::Enabled | EndpointStatus::Disabled => Ok(endpoint),
        EndpointStatus::Deleted => Err(not_found()),
    }
}

/// Locks an endpoint that the operator can see, also a deleted one.
pub(super) async fn lock(
    unit: &mut dyn OutboxUnit,
    operator: &Operator,
    id: EndpointId,
) -> Result<WebhookEndpoint, WebhookError> {
    unit.lock_webhook_endpoint(operator.only_tenant(), id).await?.ok_or_else(not_found)
}

/// Locks an endpoint. An error if it is no longer the version from which a delivery was made: its URL may be another one, and
/// its bodies may have another content.
pub(super) async fn lock_version(
    unit: &mut dyn OutboxUnit,
    operator: &Operator,
    id: EndpointId,
    version: i64,
) -> Result<(), WebhookError> {
    if not_deleted(lock(unit, operator, id).await?)?.version == version {
        return Ok(());
    }
    Err(InvalidEndpoint::new("endpoint", "was changed during this call; repeat it").into())
}

/// Whether the operator can let bodies with unmasked payloads be sent to the endpoint. To an endpoint without unmasked
/// payloads only one who may see personal data can, because any operator can have changed its URL.
pub(super) fn may_send_unmasked(operator: &Operator, endpoint: &WebhookEndpoint) -> bool {
    operator.sees_personal_data || endpoint.body_form == BodyForm::Unmasked
}
