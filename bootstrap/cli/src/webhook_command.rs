//! The commands on webhooks.

use clap::Args;
use handover_outbox::operations::OperationError;
use handover_outbox::ports::EndpointId;
use handover_outbox::webhooks::{WebhookError, Webhooks};

use crate::access::Access;
use crate::args::WebhookCommand;
use crate::commands::webhooks as commands;
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

impl<F: Args> WebhookCommand<F> {
    /// Runs the command; see [`OperatorCommand::run`](crate::OperatorCommand::run).
    pub async fn run<A: WebhookAccess<Flags = F>>(&self, source: &A::Source) -> Result<(), A::Failure> {
        match self {
            WebhookCommand::Create(arguments) => commands::create::<A>(source, arguments).await,
            WebhookCommand::List(arguments) => commands::list_endpoints::<A>(source, arguments).await,
            WebhookCommand::Show(arguments) => commands::show_endpoint::<A>(source, arguments).await,
            WebhookCommand::Update(arguments) => commands::update::<A>(source, arguments).await,
            WebhookCommand::Enable(arguments) => commands::enable::<A>(source, arguments).await,
            WebhookCommand::Disable(arguments) => commands::disable::<A>(source, arguments).await,
            WebhookCommand::Delete(arguments) => commands::delete::<A>(source, arguments).await,
            WebhookCommand::RotateSecret(arguments) => commands::rotate_secret::<A>(source, arguments).await,
            WebhookCommand::RotateKey(arguments) => commands::rotate_key::<A>(source, arguments).await,
            WebhookCommand::Test(arguments) => commands::test::<A>(source, arguments).await,
            WebhookCommand::Deliveries(arguments) => commands::deliveries::<A>(source, arguments).await,
            WebhookCommand::Redeliver(arguments) => commands::redeliver::<A>(source, arguments).await,
            WebhookCommand::Recover(arguments) => commands::recover::<A>(source, arguments).await,
            #[cfg(feature = "program")]
            WebhookCommand::Listen(arguments) => Ok(crate::commands::listen(arguments).await?),
        }
    }
}
