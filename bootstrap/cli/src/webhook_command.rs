//! The commands on webhooks.

use clap::Args;

use crate::args::WebhookCommand;
use crate::commands::webhooks as commands;
use crate::webhook_access::WebhookAccess;

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
