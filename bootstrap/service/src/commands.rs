//! Implementations of the commands.

mod changes;
mod config;
mod inspect;
mod money;
mod operator;
mod reconcile;
mod serve;

use clap::CommandFactory;
use handover_runtime::stores::{self, Database};
use handover_runtime::terminal::{Common, output, say};
use handover_runtime::{Exit, Failure, telemetry};
use handover_sql::SchemaVersion;
use marketplace_wiring::adapters::PARTS;
use marketplace_wiring::config::Config;
use marketplace_wiring::edge::{self, TokenRequest};
use marketplace_wiring::{MarketFailure, Secrets};

use crate::cli::{
    AuditCommand, BackupArgs, Cli, Command, ConfigCommand, DlqCommand, OrderCommand, OutboxCommand, TokenArgs,
};
use crate::{asyncapi, doctor};

pub(crate) async fn run(cli: Cli) -> Result<Exit, Failure> {
    match cli.command {
        None => serve::serve(&cli.serve).await?,
        Some(Command::Serve(arguments)) => serve::serve(&arguments).await?,
        Some(Command::Migrate(common)) => migrate(&common).await?,
        Some(Command::Backup(arguments)) => backup(&arguments).await?,
        Some(Command::Doctor(arguments)) => {
            let report = doctor::report(&arguments).await;
            say(&report.format(arguments.output.output))?;
            return Ok(report.exit());
        }
        Some(Command::Demo(arguments)) => return marketplace_demo::run(&arguments).await,
        Some(Command::Token(arguments)) => token(&arguments)?,
        Some(Command::Outbox(command)) => outbox(&command).await?,
        Some(Command::Dlq(DlqCommand::List(arguments))) => inspect::dead_letters(&arguments).await?,
        Some(Command::Dlq(DlqCommand::Replay(arguments))) => changes::replay(&arguments).await?,
        Some(Command::Dlq(DlqCommand::Discard(arguments))) => changes::discard(&arguments).await?,
        Some(Command::Order(OrderCommand::Timeline(arguments))) => inspect::timeline(&arguments).await?,
        Some(Command::Payment(command)) => money::payment(&command).await?,
        Some(Command::Refund(command)) => money::refund(&command).await?,
        Some(Command::Reconcile(arguments)) => return reconcile::reconcile(&arguments).await,
        Some(Command::Audit(AuditCommand::List(arguments))) => inspect::audit(&arguments).await?,
        Some(Command::Queues(arguments)) => inspect::queues(&arguments).await?,
        Some(Command::Config(ConfigCommand::Show(arguments))) => config::show(&arguments)?,
        Some(Command::OpenApi) => say(&output::json(&marketplace_http::openapi()))?,
        Some(Command::AsyncApi(common)) => {
            let timeout = common.load::<Config>()?.rules.pending_timeout;
            say(&output::json(&asyncapi::document(timeout)))?;
        }
        Some(Command::Completions { shell }) => completions(shell)?,
    }
    Ok(Exit::Done)
}

async fn outbox(command: &OutboxCommand) -> Result<(), Failure> {
    match command {
        OutboxCommand::List(arguments) => inspect::outbox(arguments).await,
        OutboxCommand::Show(arguments) => inspect::event(arguments).await,
        OutboxCommand::Redrive(arguments) => changes::redrive(arguments).await,
        OutboxCommand::Blocked(arguments) => inspect::blocked(arguments).await,
        OutboxCommand::Release(arguments) => changes::release(arguments).await,
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "handover", &mut script);
    say(&String::from_utf8_lossy(&script))
}

async fn migrate(common: &Common) -> Result<(), Failure> {
    let config: Config = common.load()?;
    let telemetry = telemetry::install(&config.log)?;
    let migrated = Database::migrate(&config.database, PARTS).await;
    telemetry.end().await;
    let version = |it: &SchemaVersion| format!("version {} of the {} schema", it.found.unwrap_or(0), it.part);
    let versions: Vec<String> = migrated?.iter().map(version).collect();
    say(&format!("{} is at {}\n", config.database, versions.join(" and ")))
}

async fn backup(arguments: &BackupArgs) -> Result<(), Failure> {
    let config: Config = arguments.common.load()?;
    let bytes = stores::backup(&config.database, PARTS, &arguments.file).await?;
    say(&format!("{} is copied to {} ({bytes} bytes)\n", config.database, arguments.file.display()))
}

fn token(arguments: &TokenArgs) -> Result<(), Failure> {
    let config: Config = arguments.common.load()?;
    let secret = Secrets::jwt(&config)?.ok_or(MarketFailure::NoSigningSecret {})?;
    let TokenArgs { user, tenant, ref roles, ttl, .. } = *arguments;
    let token = edge::token(&secret, &config, &TokenRequest { user, tenant, roles, ttl })?;
    say(&format!("{token}\n"))
}
