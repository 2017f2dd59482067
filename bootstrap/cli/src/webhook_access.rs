//! Access of a command to the webhooks of an outbox.

use handover_outbox::operations::OperationError;
use handover_outbox::ports::EndpointId;
use handover_outbox::webhooks::{WebhookError, Webhooks};

use crate::access::Access;
use crate::failure::CommandFailure;

/// Access of a command to webhooks.
pub trait WebhookAccess: Access {
    /// The webhooks of the outbox.
    fn webhooks(&self) -> Result<Webhooks, Self::Failure>;

    /// The failure of an operation on an endpoint.
    fn webhook_failed(&self, error: WebhookError, endpoint: Option<EndpointId>) -> Self::Failure {
        match (error, endpoint) {
            (WebhookError::Operation(OperationError::NotFound { what: "webhook endpoint" }), Some(id)) => {
                self.missing(format!("webhook endpoint {id}"), "handover webhook list")
            }
            (WebhookError::Operation(error), _) => self.failed(error),
            (WebhookError::Invalid(error), _) => {
                let remedy = "see handover webhook --help".to_owned();
                CommandFailure::Usage { what: error.to_string(), remedy }.into()
            }
            (error @ (WebhookError::TooManyEndpoints | WebhookError::Secret(_)), _) => {
                CommandFailure::Refused { why: error.to_string() }.into()
            }
        }
    }
}
