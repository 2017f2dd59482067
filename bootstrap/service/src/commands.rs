//! Implementations of the commands.

mod erase;
mod invoices;
mod money;
mod operator;
mod orders;
mod reconcile;
mod serve;

use clap::CommandFactory;
use handover_cli::Session;
use handover_runtime::terminal::{output, say};
use handover_runtime::{Exit, Failure};
use marketplace_wiring::Secrets;
use marketplace_wiring::edge::{self, TokenRequest};
use marketplace_wiring::settings::Config;

use crate::asyncapi;
use crate::cli::{Cli, Command, TokenArgs};

pub(crate) async fn run(cli: Cli) -> Result<Exit, Failure> {
    match cli.command.map(|command| command.0) {
        None => serve::serve(&cli.serve).await?,
        Some(Command::Serve(arguments)) => serve::serve(&arguments).await?,
        Some(Command::Toolkit(command)) => return handover_cli::run::<Config>(&command).await,
        Some(Command::Demo(arguments)) => return marketplace_demo::run(&arguments).await,
        Some(Command::Token(arguments)) => token(&arguments)?,
        Some(Command::Order(command)) => orders::order(&command).await?,
        Some(Command::Payment(command)) => money::payment(&command).await?,
        Some(Command::Refund(command)) => money::refund(&command).await?,
        Some(Command::Invoice(command)) => invoices::invoice(&command).await?,
        Some(Command::Webhook(command)) => command.run::<Session<Config>>(&()).await?,
        Some(Command::Reconcile(arguments)) => return reconcile::reconcile(&arguments).await,
        Some(Command::Erase(arguments)) => return erase::erase(&arguments).await,
        Some(Command::OpenApi) => say(&output::json(&marketplace_http::openapi()))?,
        Some(Command::AsyncApi(common)) => {
            let timeout = common.load::<Config>()?.rules.pending_timeout;
            say(&output::json(&asyncapi::document(timeout)))?;
        }
        Some(Command::Completions { shell }) => completions(shell)?,
    }
    Ok(Exit::Done)
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "handover", &mut script);
    Ok(say(&String::from_utf8_lossy(&script))?)
}

fn token(arguments: &TokenArgs) -> Result<(), Failure> {
    let config: Config = arguments.common.load()?;
    let signs_with_file = config.auth.signs_tokens() && config.auth.secret.is_none();
    // A secret that is generated in another folder than the service's verifies no token.
    if let Some(file) = config.database.file().filter(|file| signs_with_file && !file.exists()) {
        return Err(Failure::NoDatabase { database: file.to_owned() });
    }
    let secrets = Secrets::tokens(&config)?;
    let TokenArgs { user, tenant, ref roles, ttl, .. } = *arguments;
    let token = edge::token(&secrets, &config, &TokenRequest { user, tenant, roles, ttl })?;
    Ok(say(&format!("{token}\n"))?)
}
